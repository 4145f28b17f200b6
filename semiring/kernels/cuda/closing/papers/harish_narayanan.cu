// P. Harish, P. J. Narayanan, "Accelerating large graph algorithms on the GPU using CUDA", HiPC 2007, section 3.4: one
// launch per pivot and one thread per cell, in blocks of 16 x 16. Each launch reads and writes the n x n matrix, so
// that the memory bandwidth is the limit. Row k and column k already hold their final values of step k. No thread
// writes them, and no thread reads what another thread writes.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(256) per_cell(element *A, long long stride, int n, int k) {
    const int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= n || j >= n || i == k || j == k) return;
    element *entry = A + i * stride + j;
    *entry = plus(*entry, times(A[i * stride + k], A[k * stride + j]));
}
