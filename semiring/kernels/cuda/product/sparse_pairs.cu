// Products of rows whose pairs are sorted in global memory.
#include "sparse_sums.cuh"

// Of the entries of some rows of A: write the key of each pair, row · 2^shift + column, its term, and its k.
extern "C" __global__ void __launch_bounds__(256)
expand_pairs(long long entries, long long pairs, const long long *entry_rows, const long long *entry_places,
             const long long *ends, const inner_t *a_columns, const element *a_values, const long long *b_starts,
             const column_t *b_columns, const element *b_values, int shift, long long *keys, element *terms,
             witness_t *places) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= pairs) return;
    const long long entry = lower_bound(ends, 0, entries, t + 1), p = entry_places[entry], k = a_columns[p];
    const long long source = b_starts[k] + t - (entry ? ends[entry - 1] : 0);
    keys[t] = entry_rows[entry] << shift | (long long)b_columns[source];
    terms[t] = times(a_values[p], b_values[source]);
#ifdef WITNESS
    places[t] = (witness_t)k;
#endif
}

// Add the terms of each run of equal keys: run u is order[heads[u]] … order[heads[u + 1] - 1].
extern "C" __global__ void __launch_bounds__(256)
fold_runs(long long runs, long long pairs, const long long *heads, const long long *order, const element *terms,
          const witness_t *places, element *values, witness_t *witness) {
    const long long u = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (u >= runs) return;
    const long long end = u + 1 < runs ? heads[u + 1] : pairs;
    Sum sum = no_term();
    for (long long e = heads[u]; e < end; ++e) {
        const long long pair = order[e];
#ifdef WITNESS
        add_term(sum, terms[pair], places[pair]);
#else
        add_term(sum, terms[pair], 0);
#endif
    }
    WRITE_SUM(values, witness, u, sum);
}
