// Close a block of truth values by one thread block in one launch. A word packs 32 truth values along a row. Each
// thread updates one (row, word) of shared memory at a time: if the row's bit of the pivot column is set, it adds the
// pivot row.
//
// The star of a truth value is 1 or does not exist, so that the pivot row and column keep their values. Only the
// pivot's own bit is set. That bit counts as 0 in the pivot row during the update, so that the column does not change
// under any plus.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    close_block(word_t *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start,
                long long stack_stride) {
    A += blockIdx.x * stack_stride, start += blockIdx.x * n;
    DYNAMIC_SHARED(pool);
    const int words = (n + 31) / 32;
    word_t *block = (word_t *)pool, *factor = block + n * words;
    for (int item = threadIdx.x; item < n * words; item += blockDim.x) {
        block[item] = A[item / words * row_stride + item % words * column_stride];
    }
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        const word_t pivot_bit = 1u << (k % 32);
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            factor[i] = block[i * words + k / 32] & pivot_bit ? ~0u : 0u;
            if (i != k) continue;
            if (status && diverges(factor[k])) atomicMin(status, start + k);
            block[k * words + k / 32] |= pivot_bit;
        }
        __syncthreads();
        for (int item = threadIdx.x; item < n * words; item += blockDim.x) {
            const int i = item / words, w = item % words;
            if (i == k) continue;
            const word_t old = block[item], pivot_word = block[k * words + w] & ~(w == k / 32 ? pivot_bit : 0u);
            block[item] = plus(old, times(factor[i], pivot_word));
        }
        __syncthreads();
    }
    for (int item = threadIdx.x; item < n * words; item += blockDim.x) {
        A[item / words * row_stride + item % words * column_stride] = block[item];
    }
}
