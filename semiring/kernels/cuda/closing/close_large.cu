// Close a block that exceeds the registers of one thread block, by one thread block in one launch. The elimination is
// that of close_block.cu, with the matrix in global memory. The kernel is correct for every n whose row and column fit
// into shared memory. It serves the few sizes that no recursion splits.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    close_block(element *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start,
                long long stack_stride) {
    A += blockIdx.x * stack_stride, start += blockIdx.x * n;
    DYNAMIC_SHARED(pool);
    element *row = (element *)pool, *column = row + n;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            row[i] = A[k * row_stride + i * column_stride];
            column[i] = A[i * row_stride + k * column_stride];
        }
        __syncthreads();
        const element pivot = row[k], s = star(pivot);
        if (threadIdx.x == 0 && status && diverges(pivot)) atomicMin(status, start + k);
        for (int item = threadIdx.x; item < n * n; item += blockDim.x) {
            const int i = item / n, j = item % n;
            element *target = A + i * row_stride + j * column_stride;
            const element old = *target;
            element entry;
            if (i == k) {
                entry = j == k ? s : scale_row(s, row[j]);
            } else if (j == k) {
                entry = scale_column(column[i], s);
            } else {
                entry = plus(old, times(column[i], scale_row(s, row[j])));
            }
            *target = entry;
        }
        __syncthreads();
    }
}
