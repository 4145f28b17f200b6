// Index arrays of compressed rows, of any values. start_t and index_t are their types. LANES: the threads of a team, which
// reads a row; a power of two.

#ifndef LANES
#define LANES 8
#endif

// Validate compressed rows of ``width`` columns. result[0]: 1 if a start is less than its predecessor or beyond the
// ``size`` indices, 2 if an index lies outside. result[1]: how many more indices do not exceed their predecessor than
// rows begin with such an index: 0 if the indices of each row ascend. result[2]: the number of entries. ``wide`` (m + 1,)
// receives the starts, unless it is null.
extern "C" __global__ void __launch_bounds__(256)
scan_indices(long long m, long long size, long long width, const start_t *starts, const index_t *indices,
             unsigned long long *result, long long *wide) {
    __shared__ int flags, descents;
    if (threadIdx.x == 0) flags = descents = 0;
    __syncthreads();
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x, threads = (long long)gridDim.x * blockDim.x;
    long long count = starts[m];
    count = count < 0 ? 0 : count < size ? count : size;
    int flag = 0, descent = 0;
    for (long long row = thread; row <= m; row += threads) {
        const long long start = starts[row];
        if (wide) wide[row] = start;
        if (start < 0 || start > size || (row ? start < starts[row ? row - 1 : 0] : start != 0)) flag |= 1;
        else if (row < m && start > 0 && start < count && starts[row + 1] > start && indices[start - 1] >= indices[start]) --descent;
    }
    for (long long p = thread; p < count; p += threads) {
        const index_t index = indices[p];
        if (index < 0 || index >= width) flag |= 2;
        if (p && indices[p - 1] >= index) ++descent;
    }
    if (flag) atomicOr(&flags, flag);
    if (descent) atomicAdd(&descents, descent);
    __syncthreads();
    if (threadIdx.x) return;
    if (flags) atomicOr((unsigned *)result, (unsigned)flags);
    if (descents) atomicAdd(result + 1, (unsigned long long)(long long)descents);
    if (blockIdx.x == 0) result[2] = count;
}

// Survey the places of entries. result: 1 if an index is negative, 2 if one lies outside (m, n), 4 if a place is less than
// its predecessor by row and column, 8 if they are equal, added.
extern "C" __global__ void __launch_bounds__(256)
survey_places(long long count, long long m, long long n, const index_t *rows, const index_t *columns, unsigned *result) {
    __shared__ int flags;
    if (threadIdx.x == 0) flags = 0;
    __syncthreads();
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x, threads = (long long)gridDim.x * blockDim.x;
    int flag = 0;
    for (long long p = thread; p < count; p += threads) {
        const index_t row = rows[p], column = columns[p];
        if (row < 0 || column < 0) flag |= 1;
        if (row >= m || column >= n) flag |= 2;
        if (p == 0) continue;
        const index_t before = rows[p - 1];
        if (before > row || (before == row && columns[p - 1] > column)) flag |= 4;
        if (before == row && columns[p - 1] == column) flag |= 8;
    }
    if (flag) atomicOr(&flags, flag);
    __syncthreads();
    if (threadIdx.x == 0 && flags) atomicOr(result, (unsigned)flags);
}

#define CLASSES 7
// Write the number of pairs of each row of A ⊗ B, and the rows of each class to its list: up to 32, 64, …, 1024 pairs,
// and more. ``sizes`` receives the number of rows of each class.
extern "C" __global__ void __launch_bounds__(256)
measure_rows(long long m, const long long *a_starts, const index_t *a_columns, const long long *b_starts,
             long long *pairs, long long *lists, unsigned long long *sizes) {
    __shared__ unsigned counts[CLASSES];
    __shared__ unsigned long long bases[CLASSES];
    const int teams = blockDim.x / LANES, lane = threadIdx.x % LANES;
    const long long row = (long long)blockIdx.x * teams + threadIdx.x / LANES;
    if (threadIdx.x < CLASSES) counts[threadIdx.x] = 0;
    __syncthreads();
    long long count = 0;
    if (row < m) {
#pragma unroll 4
        for (long long p = a_starts[row] + lane; p < a_starts[row + 1]; p += LANES) {
            const long long k = a_columns[p];
            count += b_starts[k + 1] - b_starts[k];
        }
    }
    for (int distance = LANES / 2; distance; distance /= 2) count += __shfl_sync(0xffffffffu, count, (threadIdx.x & 31) ^ distance);
    int which = -1;
    unsigned rank = 0;
    if (row < m && lane == 0) {
        pairs[row] = count;
        if (count) {
            which = 0;
            while (which < CLASSES - 1 && count > (32ll << which)) ++which;
            rank = atomicAdd(counts + which, 1u);
        }
    }
    __syncthreads();
    if (threadIdx.x < CLASSES && counts[threadIdx.x]) {
        bases[threadIdx.x] = atomicAdd(sizes + threadIdx.x, (unsigned long long)counts[threadIdx.x]);
    }
    __syncthreads();
    if (which >= 0) lists[which * m + bases[which] + rank] = row;
}

// Write the row of each entry.
extern "C" __global__ void __launch_bounds__(256) write_rows(long long m, const long long *starts, index_t *rows) {
    const int teams = blockDim.x / LANES;
    const long long row = (long long)blockIdx.x * teams + threadIdx.x / LANES;
    if (row >= m) return;
    for (long long p = starts[row] + threadIdx.x % LANES; p < starts[row + 1]; p += LANES) rows[p] = (index_t)row;
}

// Write whether the positions (rows[u], columns[u]) are no entries of the excluded pattern.
extern "C" __global__ void __launch_bounds__(256)
are_included(long long count, const long long *rows, const long long *columns, const long long *e_starts,
             const index_t *e_columns, unsigned char *out) {
    const long long u = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (u >= count) return;
    long long first = e_starts[rows[u]];
    const long long end = e_starts[rows[u] + 1];
    for (long long last = end; first < last;) {
        const long long middle = (first + last) >> 1;
        if (e_columns[middle] < columns[u]) first = middle + 1;
        else last = middle;
    }
    out[u] = !(first < end && e_columns[first] == columns[u]);
}
