// 1. A launch a pivot, the matrix in global memory: n launches that read and write n x n entries each, so the memory is
// the limit. Row k and column k hold what they will hold, so nobody writes them, and no thread reads what another
// writes.
//
//   per_cell     one thread a cell, blocks of 16 x 16 (P. Harish, P. J. Narayanan, "Accelerating large graph algorithms
//                on the GPU using CUDA", HiPC 2007);
//   rank_one     one block a submatrix of 64 x 64, a rank-one update of it (A. Buluc, J. R. Gilbert, C. Budak, "Solving
//                path problems on the GPU", Parallel Computing 36, 2010: the iterative version);
//   per_row      blocks one row high, the row's value A[i][k] read by one thread into shared memory (Bertoldi,
//                algorithm 4);
//   per_row_direct  the same without shared memory (Bertoldi, algorithm 5; the comparison is the right way round here).
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(256) per_cell(element *A, long long stride, int n, int k) {
    const int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= n || j >= n || i == k || j == k) return;
    element *at = A + i * stride + j;
    *at = plus(*at, times(A[i * stride + k], A[k * stride + j]));
}

extern "C" __global__ void __launch_bounds__(256) rank_one(element *A, long long stride, int n, int k) {
    __shared__ element column[64], row[64];
    const int top = blockIdx.y * 64, left = blockIdx.x * 64, t = threadIdx.y * 16 + threadIdx.x;
    if (t < 64) {
        column[t] = top + t < n ? A[(top + t) * stride + k] : ZERO;
    } else if (t < 128) {
        row[t - 64] = left + t - 64 < n ? A[k * stride + left + t - 64] : ZERO;
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 64; y += 16) {
        for (int x = threadIdx.x; x < 64; x += 16) {
            const int i = top + y, j = left + x;
            if (i >= n || j >= n || i == k || j == k) continue;
            element *at = A + i * stride + j;
            *at = plus(*at, times(column[y], row[x]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) per_row(element *A, long long stride, int n, int k) {
    __shared__ element value;
    const int across = (n + 127) / 128, i = blockIdx.x / across, j = blockIdx.x % across * 128 + threadIdx.x;
    if (threadIdx.x == 0) value = A[i * stride + k];
    __syncthreads();
    if (j >= n || i == k || j == k) return;
    element *at = A + i * stride + j;
    *at = plus(*at, times(value, A[k * stride + j]));
}

extern "C" __global__ void __launch_bounds__(128) per_row_direct(element *A, long long stride, int n, int k) {
    const int across = (n + 127) / 128, i = blockIdx.x / across, j = blockIdx.x % across * 128 + threadIdx.x;
    if (j >= n || i == k || j == k) return;
    element *at = A + i * stride + j;
    *at = plus(*at, times(A[i * stride + k], A[k * stride + j]));
}
