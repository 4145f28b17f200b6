// Sparse products by sorted pairs. A warp computes a row of at most MOST pairs: it sorts them in registers by column, and
// in the order of k. ITEMS: the pairs of a lane. BITS: log₂ of MOST. sort_key_t: an unsigned type that holds a key.
#include "sparse_sums.cuh"

#define MOST (32 * ITEMS)

// Let two places of a lane hold the lesser and the greater key.
INLINE void order(sort_key_t &x, sort_key_t &y) {
    const sort_key_t low = x < y ? x : y, high = x < y ? y : x;
    x = low, y = high;
}

// Exchange all keys with another lane, the last with its first if ``is_reversed``, and keep the lesser or greater ones.
template <bool is_reversed> INLINE void exchange(sort_key_t (&keys)[ITEMS], int lane, int distance, bool is_low) {
    sort_key_t other[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) other[i] = of_lane(keys[is_reversed ? ITEMS - 1 - i : i], lane ^ distance);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) keys[i] = (other[i] < keys[i]) == is_low ? other[i] : keys[i];
}

// Sort the keys of a warp: bitonic merges, the first step of each against the mirror image. A lane holds adjacent keys.
INLINE void sort(sort_key_t (&keys)[ITEMS], int lane) {
#pragma unroll
    for (int size = 2; size <= ITEMS; size *= 2) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if ((i ^ (size - 1)) > i) order(keys[i], keys[i ^ (size - 1)]);
        }
#pragma unroll
        for (int stride = size / 4; stride; stride /= 2) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (!(i & stride)) order(keys[i], keys[i + stride]);
            }
        }
    }
#pragma unroll
    for (int lanes = 2; lanes <= 32; lanes *= 2) {
        exchange<true>(keys, lane, lanes - 1, !(lane & lanes / 2));
#pragma unroll
        for (int distance = lanes / 4; distance; distance /= 2) exchange<false>(keys, lane, distance, !(lane & distance));
#pragma unroll
        for (int stride = ITEMS / 2; stride; stride /= 2) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (!(i & stride)) order(keys[i], keys[i + stride]);
            }
        }
    }
}

INLINE bool is_excluded(const long long *starts, const column_t *columns, long long row, column_t column) {
    if (!starts) return false;
    const long long last = starts[row + 1], place = lower_bound(columns, starts[row], last, column);
    return place < last && columns[place] == column;
}

// Of the rows of a list: write the number of entries of A ⊗ B outside the positions e to ``counts``, or with FILL the
// entries. With MASKED too, write the entries at these positions, and that they are reached. A key is the column of a pair, with FILL followed by the number of the pair in the order of k, so equal
// columns become neighbours in this order. Shared memory: MOST + ITEMS keys for each warp, with FILL also MOST terms and
// their k.
extern "C" __global__ void __launch_bounds__(128)
sort_rows(long long rows, const long long *list, const long long *a_starts, const inner_t *a_columns,
          const element *a_values, const long long *b_starts, const column_t *b_columns, const element *b_values,
          const long long *e_starts, const column_t *e_columns, long long *counts, const long long *c_starts,
          column_t *c_columns, element *c_values, witness_t *c_witness, unsigned char *reached) {
    DYNAMIC_SHARED(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const long long at = (long long)blockIdx.x * warps + warp;
    if (at >= rows) return;
    sort_key_t *pool = (sort_key_t *)memory + warp * (MOST + ITEMS);
#ifdef FILL
#ifdef WITNESS
    inner_t *places = (inner_t *)((sort_key_t *)memory + warps * (MOST + ITEMS)) + warp * MOST;
    element *terms = (element *)((inner_t *)((sort_key_t *)memory + warps * (MOST + ITEMS)) + warps * MOST) + warp * MOST;
#else
    element *terms = (element *)((sort_key_t *)memory + warps * (MOST + ITEMS)) + warp * MOST;
#endif
#endif
    const long long row = list[at], a_end = a_starts[row + 1];
    int size = 0;
    for (long long p0 = a_starts[row]; p0 < a_end; p0 += 32) {
        const long long p = p0 + lane;
        inner_t k = 0;
        long long q = 0;
        int length = 0;
        element a = ZERO;
        if (p < a_end) {
            k = a_columns[p], q = b_starts[k], length = (int)(b_starts[k + 1] - q);
#ifdef FILL
            a = a_values[p];
#endif
        }
        int end = length;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = of_lane(end, lane >= distance ? lane - distance : lane);
            if (lane >= distance) end += before;
        }
        const int total = of_lane(end, 31), first = end - length;
        q -= first;
        for (int base = 0; base < total; base += 32) {
            const int t = base + lane;  // the pair belongs to the last entry that begins at or before it
            int entry = 0;
#pragma unroll
            for (int step = 16; step; step /= 2) {
                const int begin = of_lane(first, entry + step);
                if (begin <= t) entry += step;
            }
            const long long source = of_lane(q, entry) + t;
#ifdef FILL
            const element factor = of_lane(a, entry);
#ifdef WITNESS
            const inner_t place = of_lane(k, entry);
#endif
#endif
            if (t < total) {
                const column_t column = b_columns[source];
#ifdef FILL
                pool[size + t] = (sort_key_t)column << BITS | (sort_key_t)(size + t);
                terms[size + t] = times(factor, b_values[source]);
#ifdef WITNESS
                places[size + t] = place;
#endif
#else
                pool[size + t] = (sort_key_t)column;
#endif
            }
        }
        size += total;
    }
    __syncwarp();
    sort_key_t keys[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) keys[i] = i * 32 + lane < size ? pool[i * 32 + lane] : ~(sort_key_t)0;
    __syncwarp();
    sort(keys, lane);
#ifndef FILL
    int count = 0;
    const sort_key_t before = of_lane(keys[ITEMS - 1], lane ? lane - 1 : 0);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const bool is_first = i ? keys[i] != keys[i ? i - 1 : 0] : !lane || keys[0] != before;
        if (is_first && keys[i] != ~(sort_key_t)0) count += !is_excluded(e_starts, e_columns, row, (column_t)keys[i]);
    }
    for (int distance = 16; distance; distance /= 2) count += of_lane(count, lane ^ distance);
    if (lane == 0) counts[row] = count;
#else
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) pool[(lane * ITEMS + i) + (lane * ITEMS + i) / 32] = keys[i];
    __syncwarp();
#ifdef MASKED
    const long long mask_start = e_starts[row], mask_end = e_starts[row + 1];
#else
    long long out = c_starts[row];
#endif
    for (int base = 0; base < size; base += 32) {
        const int e = base + lane;
        bool is_first = false;
        column_t column = 0;
        if (e < size) {
            column = (column_t)(pool[e + e / 32] >> BITS);
            is_first = !e || (column_t)(pool[e - 1 + (e - 1) / 32] >> BITS) != column;
        }
#ifdef MASKED
        const long long target = is_first ? lower_bound(e_columns, mask_start, mask_end, column) : mask_end;
        if (target < mask_end && e_columns[target] == column) {
            reached[target] = 1;
#else
        is_first = is_first && !is_excluded(e_starts, e_columns, row, column);
        const unsigned firsts = __ballot_sync(FULL, is_first);
        if (is_first) {
            const long long target = out + __popc(firsts & ((1u << lane) - 1));
            c_columns[target] = column;
#endif
            Sum sum = no_term();
            for (int f = e; f < size && (column_t)(pool[f + f / 32] >> BITS) == column; ++f) {
                const int pair = (int)(pool[f + f / 32] & (MOST - 1));
#ifdef WITNESS
                add_term(sum, terms[pair], places[pair]);
#else
                add_term(sum, terms[pair], 0);
#endif
            }
            WRITE_SUM(c_values, c_witness, target, sum);
        }
#ifndef MASKED
        out += __popc(firsts);
#endif
    }
#endif
}
