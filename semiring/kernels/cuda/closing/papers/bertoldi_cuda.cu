// D. Bertoldi, "Parallelization of the Floyd-Warshall algorithm", section 3.4: one launch per pivot, with thread blocks
// one row high, so that all threads of a block need the same A[i][k].
//
//   per_row         one thread reads A[i][k] into shared memory (algorithm 4, for GPUs before Volta)
//   per_row_direct  every thread reads A[i][k] from global memory, through the L1 cache (algorithm 5)
//
// THREADS: threads per block (table 5). The listings of the paper invert the comparison; here it is correct.
#include "semiring.cuh"

#ifndef THREADS
#define THREADS 128
#endif

extern "C" __global__ void __launch_bounds__(THREADS) per_row(element *A, long long stride, int n, int k) {
    __shared__ element value;
    const int blocks_per_row = (n + THREADS - 1) / THREADS;
    const int i = blockIdx.x / blocks_per_row, j = blockIdx.x % blocks_per_row * THREADS + threadIdx.x;
    if (threadIdx.x == 0) value = A[i * stride + k];
    __syncthreads();
    if (j >= n || i == k || j == k) return;
    element *entry = A + i * stride + j;
    *entry = plus(*entry, times(value, A[k * stride + j]));
}

extern "C" __global__ void __launch_bounds__(THREADS) per_row_direct(element *A, long long stride, int n, int k) {
    const int blocks_per_row = (n + THREADS - 1) / THREADS;
    const int i = blockIdx.x / blocks_per_row, j = blockIdx.x % blocks_per_row * THREADS + threadIdx.x;
    if (j >= n || i == k || j == k) return;
    element *entry = A + i * stride + j;
    *entry = plus(*entry, times(A[i * stride + k], A[k * stride + j]));
}
