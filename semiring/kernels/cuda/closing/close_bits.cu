// The closure of a block of truth values packed 32 to a word along the rows, in one launch of one thread block. Thread
// by thread a (row, word) of shared memory: where the row's bit of the pivot's column is set, the pivot's row comes in.
//
// The star of a truth value is 1 or does not exist, so the pivot's row and column stay as they are, and only its own
// bit is set. The pivot's bit of the pivot's row counts as 0 meanwhile, so that the column stays under every plus.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    close_block(word_t *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start,
                int *P, long long p_row_stride, long long p_column_stride, int k0, long long stack_stride) {
    A += blockIdx.x * stack_stride, start += blockIdx.x * n;
    DYNAMIC_SHARED(pool);
    const int words = (n + 31) / 32;
    word_t *block = (word_t *)pool, *factor = block + n * words;
    for (int item = threadIdx.x; item < n * words; item += blockDim.x) {
        block[item] = A[item / words * row_stride + item % words * column_stride];
    }
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        const word_t own = 1u << (k % 32);
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            factor[i] = block[i * words + k / 32] & own ? ~0u : 0u;
            if (i != k) continue;
            if (status && diverges(factor[k])) atomicMin(status, start + k);
            block[k * words + k / 32] |= own;
        }
        __syncthreads();
        for (int item = threadIdx.x; item < n * words; item += blockDim.x) {
            const int i = item / words, w = item % words;
            if (i == k) continue;
            const word_t old = block[item], across = block[k * words + w] & ~(w == k / 32 ? own : 0u);
            block[item] = plus(old, times(factor[i], across));
        }
        __syncthreads();
    }
    for (int item = threadIdx.x; item < n * words; item += blockDim.x) {
        A[item / words * row_stride + item % words * column_stride] = block[item];
    }
}
