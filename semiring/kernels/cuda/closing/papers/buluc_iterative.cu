// A. Buluc, J. R. Gilbert, C. Budak, "Solving path problems on the GPU", Parallel Computing 36 (2010), figure 2, the
// iterative version. There is one launch per pivot, a rank-one update of the matrix, with one thread block per
// submatrix of 64 x 64. The block reads its parts of column k and row k into shared memory once.
#include "semiring.cuh"

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
            element *entry = A + i * stride + j;
            *entry = plus(*entry, times(column[y], row[x]));
        }
    }
}
