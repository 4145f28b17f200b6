// Close a block of at most SIDE rows by one thread block, and a stack of blocks by one thread block each. The method is
// Lehmann's elimination: one pivot after the other, with the star at each pivot.
//
// If every star is 1 and plus is idempotent (Floyd and Warshall), a pivot's row and column need no separate update. The
// pivot's cycle adds only candidates that lose against the entries.
//
// The matrix is held in registers, 4 GROUPS_Y x 4 GROUPS_X entries per thread. The owners of a pivot's row and column
// publish them in shared memory. Two buffers alternate, so that one barrier per pivot suffices. The loops over pivots
// are split so that every register has a constant index: pivot k = 4 (THREADS_Y group + t) + q is row 4 group + q of
// the threads with threadIdx.y = t.
//
// Compile it with SIDE, a multiple of 8 up to 128.
//
// This kernel closes blocks of elements of 1, 2 and 8 bytes, and blocks with an expensive plus or times. It also closes
// blocks with stars that are not 1. close_pairs.cu closes all other blocks by pairs of pivots.
//
// H200, 2026-11-21: 1,000 matrices of 100 rows take 0.61 ms in float64 min-plus and 0.18 ms in float32. In float32 they
// take 0.32 ms with 128 rows for each of them and pivots read word by word, with four-way bank conflicts.
#include "semiring.cuh"
#include "copies.cuh"

#define THREADS_Y (SIDE <= 64 ? SIDE / 4 : SIDE / 8)
#define THREADS_X (SIDE / 4)
#define GROUPS_Y (SIDE / (4 * THREADS_Y))
#define GROUPS_X (SIDE / (4 * THREADS_X))
#define ROWS (4 * GROUPS_Y)
#define COLUMNS (4 * GROUPS_X)

struct Block {
    element a[ROWS][COLUMNS];
};

INLINE int row_of(int r) { return 4 * (threadIdx.y + THREADS_Y * (r / 4)) + r % 4; }
INLINE int column_of(int c) { return 4 * (threadIdx.x + THREADS_X * (c / 4)) + c % 4; }

// The thread column and the register column of a pivot, from the thread row and register row that hold it.
INLINE int owner_x(int group, int t) { return group % (THREADS_X / THREADS_Y) * THREADS_Y + t; }
INLINE constexpr int register_x(int group, int q) { return group / (THREADS_X / THREADS_Y) * 4 + q; }

INLINE void publish(const Block &block, element *row, element *column, int group, int t, int q) {
    if (threadIdx.y == t) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c += 4) {
            const element *a = block.a[4 * group + q] + c;
            store<4>(row + column_of(c), {a[0], a[1], a[2], a[3]});
        }
    }
    if (threadIdx.x == owner_x(group, t)) {
#pragma unroll
        for (int r = 0; r < ROWS; r += 4) {
            const int c = register_x(group, q);
            store<4>(column + row_of(r), {block.a[r][c], block.a[r + 1][c], block.a[r + 2][c], block.a[r + 3][c]});
        }
    }
}

struct Pivot {
    element row[COLUMNS], column[ROWS], star;  // row: the star times the pivot's row
    int k, group, t, q;

    INLINE void update(Block &block, int r, int c) const {
        const element old = block.a[r][c];
        element entry = plus(old, times(column[r], row[c]));
        const bool is_pivot_row = threadIdx.y == t, is_pivot_column = threadIdx.x == owner_x(group, t);
#ifdef UNIT_STAR
        if (r == 4 * group + q && c == register_x(group, q) && is_pivot_row && is_pivot_column) entry = ONE;
#else
        if (c == register_x(group, q) && is_pivot_column) entry = scale_column(column[r], star);
        if (r == 4 * group + q && is_pivot_row) entry = c == register_x(group, q) && is_pivot_column ? star : row[c];
#endif
        block.a[r][c] = entry;
    }
};

// Eliminate one pivot. Publish the next pivot's row and column in the other buffer as soon as they are updated. The
// remaining updates then hide the latency of shared memory.
INLINE void eliminate(Block &block, element (*rows)[SIDE], element (*columns)[SIDE], int group, int t, int q,
                      int next_group, int next_t, int next_q, bool is_inside, unsigned *status, unsigned start) {
    const element *row = rows[q % 2], *column = columns[q % 2];
    Pivot pivot;
    pivot.k = 4 * (THREADS_Y * group + t) + q, pivot.group = group, pivot.t = t, pivot.q = q;
    if (threadIdx.x == 0 && threadIdx.y == 0 && is_inside && status && diverges(row[pivot.k])) {
        atomicMin(status, start + pivot.k);
    }
#ifndef UNIT_STAR
    pivot.star = star(row[pivot.k]);
#endif
#pragma unroll
    for (int c = 0; c < COLUMNS; c += 4) {
        const Vector<4> four = load<4>(row + column_of(c));
#pragma unroll
        for (int i = 0; i < 4; ++i) pivot.row[c + i] = scale_row(pivot.star, four.v[i]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r += 4) {
        const Vector<4> four = load<4>(column + row_of(r));
#pragma unroll
        for (int i = 0; i < 4; ++i) pivot.column[r + i] = four.v[i];
    }
    const int next_row = 4 * next_group + next_q, next_column = register_x(next_group, next_q);
    if (is_inside) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if (r == next_row || c == next_column) pivot.update(block, r, c);
            }
        }
    }
    if (next_group < GROUPS_Y) publish(block, rows[next_q % 2], columns[next_q % 2], next_group, next_t, next_q);
    if (is_inside) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if (r != next_row && c != next_column) pivot.update(block, r, c);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_Y *THREADS_X)
    close_block(element *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start,
                long long stack_stride) {
    __shared__ __align__(16) element rows[2][SIDE], columns[2][SIDE];
    A += blockIdx.x * stack_stride, start += blockIdx.x * n;
    Block block;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const int i = row_of(r), j = column_of(c);
            block.a[r][c] = i < n && j < n ? A[i * row_stride + j * column_stride] : ZERO;
        }
    }
    publish(block, rows[0], columns[0], 0, 0, 0);
#pragma unroll
    for (int group = 0; group < GROUPS_Y; ++group) {
#pragma unroll 1
        for (int t = 0; t < THREADS_Y - 1; ++t) {
            if (4 * (THREADS_Y * group + t) >= n) break;
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                __syncthreads();
                const bool is_inside = 4 * (THREADS_Y * group + t) + q < n;
                eliminate(block, rows, columns, group, t, q, group, q < 3 ? t : t + 1, (q + 1) % 4, is_inside, status,
                          start);
            }
        }
        const int t = THREADS_Y - 1;
        if (4 * (THREADS_Y * group + t) >= n) break;
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            __syncthreads();
            const bool is_inside = 4 * (THREADS_Y * group + t) + q < n;
            eliminate(block, rows, columns, group, t, q, q < 3 ? group : group + 1, q < 3 ? t : 0, (q + 1) % 4,
                      is_inside, status, start);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const int i = row_of(r), j = column_of(c);
            if (i < n && j < n) {
                A[i * row_stride + j * column_stride] = block.a[r][c];
            }
        }
    }
}
