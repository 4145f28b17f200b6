#include "sparse_sums.cuh"

// The entries of A ⊗ B at the positions of a mask, by rows of A and rows of Bᵀ. A team finds the k that the two rows
// have in common: each lane searches for entries of the shorter row in the longer one. With DENSE, Bᵀ (n, k) is dense.
extern "C" __global__ void __launch_bounds__(256)
sample_rows(long long m, long long inner, long long count, const long long *mask_starts, const column_t *mask_columns,
            const long long *a_starts, const inner_t *a_columns, const element *a_values, const long long *b_starts,
            const inner_t *b_columns, const element *b_values, element *C, witness_t *W, unsigned char *reached) {
    __shared__ long long ends[2];
    const int teams = blockDim.x / LANES, lane = threadIdx.x % LANES;
    const long long first = (long long)blockIdx.x * teams, last = first + teams < count ? first + teams : count;
    if (threadIdx.x < 2) ends[threadIdx.x] = row_of(mask_starts, 0, m - 1, threadIdx.x ? last - 1 : first);
    __syncthreads();
    const long long entry = first + threadIdx.x / LANES;
    Sum sum = no_term();
    int found = 0;
    if (entry < last) {
        const long long i = row_of(mask_starts, ends[0], ends[1], entry), j = mask_columns[entry];
        long long p = a_starts[i], p_end = a_starts[i + 1];
#ifdef DENSE
        const element *b = b_values + j * inner;
        found = p < p_end;
        for (p += lane; p < p_end; p += LANES) add_term(sum, times(a_values[p], b[a_columns[p]]), a_columns[p]);
#else
        long long q = b_starts[j], q_end = b_starts[j + 1];
        if (p_end - p <= q_end - q) {
            for (p += lane; p < p_end && q < q_end; p += LANES) {
                const inner_t k = a_columns[p];
                q = lower_bound(b_columns, q, q_end, k);
                if (q < q_end && b_columns[q] == k) add_term(sum, times(a_values[p], b_values[q]), k), found = 1;
            }
        } else {
            for (q += lane; q < q_end && p < p_end; q += LANES) {
                const inner_t k = b_columns[q];
                p = lower_bound(a_columns, p, p_end, k);
                if (p < p_end && a_columns[p] == k) add_term(sum, times(a_values[p], b_values[q]), k), found = 1;
            }
        }
#endif
    }
    add_lanes(sum, threadIdx.x, LANES);
    const unsigned team = LANES == 32 ? FULL : ((1u << (LANES & 31)) - 1) << (threadIdx.x & 31 & ~(LANES - 1));
    found = (__ballot_sync(FULL, found) & team) != 0;
    if (entry < last && lane == 0) {
        WRITE_SUM(C, W, entry, sum);
        reached[entry] = found;
    }
}
