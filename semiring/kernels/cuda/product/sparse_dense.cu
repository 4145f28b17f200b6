// Products of a sparse and a dense operand. VECTOR: the adjacent columns of a thread, which it loads together. LONG: the
// entries of the longest row that one team computes.
//
// Of a stack of dense matrices, blockIdx.z is the number of the matrix, and ``stride`` are the elements of one.
//
// ``scan`` is null for validated indices. Otherwise it holds the words that scan_indices has written before, and nothing
// is computed unless both are 0: an invalid index is never an address. LOG_SUMS: ⊕ is log(exp + exp) of real numbers.
#include "sparse_sums.cuh"

#define IS_REFUSED(scan) ((scan) && ((scan)[0] | (scan)[1]))

#ifndef VECTOR
#define VECTOR 1
#endif
#define THREADS 256  // of a block, at most
#define AHEAD 4  // the rows of B that a thread loads before it adds them

struct __align__(VECTOR * sizeof(element)) Pack {
    element x[VECTOR];
};

INLINE void add_rows(Sum *sums, const inner_t *columns, const element *values, long long p, long long end,
                     const element *B, long long n, int of_entries) {
    for (; p + AHEAD <= end; p += AHEAD) {
        inner_t k[AHEAD];
        element a[AHEAD];
        Pack b[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) k[u] = columns[p + u], a[u] = values[p + u];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) b[u] = *(const Pack *)(B + (long long)k[u] * n);
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) add_term(sums[v], TERM(a[u], b[u].x[v]), of_entries ? p + u : (long long)k[u]);
        }
    }
    for (; p < end; ++p) {
        const inner_t k = columns[p];
        const element a = values[p];
        const Pack b = *(const Pack *)(B + (long long)k * n);
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) add_term(sums[v], TERM(a, b.x[v]), of_entries ? p : (long long)k);
    }
}

INLINE void write_sums(const Sum *sums, element *C, witness_t *W, long long place) {
    Pack c;
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) c.x[v] = value_of(sums[v]);
    *(Pack *)(C + place) = c;
#ifdef WITNESS
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) W[place + v] = sums[v].k;
#endif
}

// C (m, n) ← A ⊗ B for a dense B (k, n), whose rows are aligned to a pack. A team computes a row; the teams of a block
// share a long row.
extern "C" __global__ void __launch_bounds__(THREADS)
multiply_rows(long long m, long long n, const long long *starts, const inner_t *columns, const element *values,
              const element *B, element *C, witness_t *W, int of_entries, long long stride, const unsigned long long *scan) {
    __shared__ Sum partial[THREADS * VECTOR];
    if (IS_REFUSED(scan)) return;
    B += blockIdx.z * stride, C += blockIdx.z * (m * n);
#ifdef WITNESS
    W += blockIdx.z * (m * n);
#endif
    const int teams = blockDim.x / LANES, team = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long first_row = (long long)blockIdx.x * teams, row = first_row + team;
    const long long start = row < m ? starts[row] : 0, end = row < m ? starts[row + 1] : 0;
    const bool is_long = end - start > LONG;
    for (long long left = (long long)blockIdx.y * LANES * VECTOR; left < n; left += (long long)gridDim.y * LANES * VECTOR) {
        const long long j = left + lane * VECTOR;
        if (row < m && j < n && !is_long) {
            Sum sums[VECTOR];
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) sums[v] = no_term();
            add_rows(sums, columns, values, start, end, B + j, n, of_entries);
            write_sums(sums, C, W, row * n + j);
        }
        if (!__syncthreads_or(is_long)) continue;
        for (int t = 0; t < teams && first_row + t < m; ++t) {
            const long long first = starts[first_row + t], last = starts[first_row + t + 1];
            if (last - first <= LONG) continue;
            const long long share = (last - first + teams - 1) / teams, from = first + team * share;
            Sum sums[VECTOR];
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) sums[v] = no_term();
            if (j < n) add_rows(sums, columns, values, from, from + share < last ? from + share : last, B + j, n, of_entries);
            __syncthreads();
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) partial[threadIdx.x * VECTOR + v] = sums[v];
            __syncthreads();
            if (team || j >= n) continue;
            for (int other = 1; other < teams; ++other) {
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) add_sum(sums[v], partial[(other * LANES + lane) * VECTOR + v]);
            }
            write_sums(sums, C, W, (first_row + t) * n + j);
        }
        __syncthreads();
    }
}

INLINE Sum add_entries(const inner_t *columns, const element *values, const element *x, long long p, long long end,
                       int step, int of_entries) {
    Sum sum = no_term();
    for (; p + 3 * step < end; p += 4 * step) {
        inner_t k[4];
        element a[4], b[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) k[u] = columns[p + u * step], a[u] = values[p + u * step];
#pragma unroll
        for (int u = 0; u < 4; ++u) b[u] = x[k[u]];
#pragma unroll
        for (int u = 0; u < 4; ++u) add_term(sum, TERM(a[u], b[u]), of_entries ? p + u * step : (long long)k[u]);
    }
    for (; p < end; p += step) {
        const inner_t k = columns[p];
        add_term(sum, TERM(values[p], x[k]), of_entries ? p : (long long)k);
    }
    return sum;
}

// y (m,) ← A ⊗ x. A team adds the terms of a row; the lanes of a block share a long row.
extern "C" __global__ void __launch_bounds__(THREADS)
multiply_vector(long long m, const long long *starts, const inner_t *columns, const element *values, const element *x,
                element *y, witness_t *W, int of_entries, long long stride, const unsigned long long *scan) {
    __shared__ Sum partial[8];
    if (IS_REFUSED(scan)) return;
    x += blockIdx.z * stride, y += blockIdx.z * m;
#ifdef WITNESS
    W += blockIdx.z * m;
#endif
    const int teams = blockDim.x / LANES, lane = threadIdx.x % LANES;
    const long long first_row = (long long)blockIdx.x * teams, row = first_row + threadIdx.x / LANES;
    const long long start = row < m ? starts[row] : 0, end = row < m ? starts[row + 1] : 0;
    const bool is_long = end - start > LONG;
    Sum sum = no_term();
    if (!is_long) sum = add_entries(columns, values, x, start + lane, end, LANES, of_entries);
    add_lanes(sum, threadIdx.x, LANES);
    if (row < m && lane == 0 && !is_long) WRITE_SUM(y, W, row, sum);
    if (!__syncthreads_or(is_long)) return;
    for (int t = 0; t < teams && first_row + t < m; ++t) {
        const long long first = starts[first_row + t], last = starts[first_row + t + 1];
        if (last - first <= LONG) continue;
        sum = add_entries(columns, values, x, first + threadIdx.x, last, blockDim.x, of_entries);
        add_lanes(sum, threadIdx.x, 32);
        __syncthreads();
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x) continue;
        for (unsigned other = 1; other < blockDim.x / 32; ++other) add_sum(sum, partial[other]);
        WRITE_SUM(y, W, first_row + t, sum);
    }
}
