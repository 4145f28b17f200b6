// D. Bertoldi, "Parallelization of the Floyd-Warshall algorithm", section 3.4: a launch for each pivot, thread blocks
// one row high, so that all threads of a block need the same A[i][k].
//
//   per_row         one thread reads it into shared memory (algorithm 4, for GPUs before Volta);
//   per_row_direct  every thread reads it from global memory, by way of the first-level cache (algorithm 5).
//
// THREADS: threads of a block (his table 5). The comparison is the right way round here: his listings have it inverted.
#include "semiring.cuh"

#ifndef THREADS
#define THREADS 128
#endif

extern "C" __global__ void __launch_bounds__(THREADS) per_row(element *A, long long stride, int n, int k) {
    __shared__ element value;
    const int across = (n + THREADS - 1) / THREADS;
    const int i = blockIdx.x / across, j = blockIdx.x % across * THREADS + threadIdx.x;
    if (threadIdx.x == 0) value = A[i * stride + k];
    __syncthreads();
    if (j >= n || i == k || j == k) return;
    element *at = A + i * stride + j;
    *at = plus(*at, times(value, A[k * stride + j]));
}

extern "C" __global__ void __launch_bounds__(THREADS) per_row_direct(element *A, long long stride, int n, int k) {
    const int across = (n + THREADS - 1) / THREADS;
    const int i = blockIdx.x / across, j = blockIdx.x % across * THREADS + threadIdx.x;
    if (j >= n || i == k || j == k) return;
    element *at = A + i * stride + j;
    *at = plus(*at, times(A[i * stride + k], A[k * stride + j]));
}
