// P. Harish, P. J. Narayanan, "Accelerating large graph algorithms on the GPU using CUDA", HiPC 2007, section 3.4: a
// launch for each pivot, a thread for each cell, in blocks of 16 x 16. Each launch reads and writes the n x n matrix,
// so the rate of the memory is the limit. Row k and column k hold what they will hold: no thread writes them, and no
// thread reads what another one writes.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(256) per_cell(element *A, long long stride, int n, int k) {
    const int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= n || j >= n || i == k || j == k) return;
    element *at = A + i * stride + j;
    *at = plus(*at, times(A[i * stride + k], A[k * stride + j]));
}
