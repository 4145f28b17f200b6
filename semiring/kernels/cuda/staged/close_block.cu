// The closure of one block of at most SIDE rows in one launch of one thread block: Lehmann's elimination, one pivot
// after the other, with the star at each pivot (Floyd and Warshall where every star is one).
//
// The matrix lives in registers, 4 GROUPS_Y x 4 GROUPS_X entries a thread. A pivot's row and column are published in shared
// memory, in two buffers that take turns, so that one barrier a pivot is enough. The loops over pivots are cut so that every register
// has a constant index: pivot k = 4 (THREADS_Y group + t) + q is row 4 group + q of the threads with threadIdx.y = t.
//
// Compiled with SIDE (32, 64 or 128) and, for the variant that records pivots, PIVOTS.
#include "semiring.cuh"

#if SIDE == 32
#define THREADS_Y 8
#define THREADS_X 8
#elif SIDE == 64
#define THREADS_Y 16
#define THREADS_X 16
#else
#define THREADS_Y 16
#define THREADS_X 32
#endif
#define GROUPS_Y (SIDE / (4 * THREADS_Y))
#define GROUPS_X (SIDE / (4 * THREADS_X))
#define ROWS (4 * GROUPS_Y)
#define COLUMNS (4 * GROUPS_X)

struct Block {
    element a[ROWS][COLUMNS];
#ifdef PIVOTS
    unsigned mark[ROWS][COLUMNS / 4];  // a byte an entry: the last pivot that changed it, 255 for none
#endif
};

INLINE int row_of(int r) { return 4 * (threadIdx.y + THREADS_Y * (r / 4)) + r % 4; }
INLINE int column_of(int c) { return 4 * (threadIdx.x + THREADS_X * (c / 4)) + c % 4; }

// The thread column and the register column of a pivot, from its row's.
INLINE int owner_x(int group, int t) { return group % (THREADS_X / THREADS_Y) * THREADS_Y + t; }
INLINE constexpr int register_x(int group, int q) { return group / (THREADS_X / THREADS_Y) * 4 + q; }

// The selector of __byte_perm(x, y, .) that puts byte 0 of y in the place of byte b of x.
INLINE constexpr unsigned with_byte(int b) { return (0x3210 & ~(15 << 4 * b)) | 4 << 4 * b; }

INLINE void publish(const Block &block, element *row, element *column, int group, int t, int q) {
    if (threadIdx.y == t) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) row[column_of(c)] = block.a[4 * group + q][c];
    }
    if (threadIdx.x == owner_x(group, t)) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) column[row_of(r)] = block.a[r][register_x(group, q)];
    }
}

INLINE void eliminate(Block &block, const element *row, const element *column, int group, int t, int q, unsigned *status,
                      unsigned start) {
    const int k = 4 * (THREADS_Y * group + t) + q;
    const element pivot = row[k];
    if (threadIdx.x == 0 && threadIdx.y == 0 && status && diverges(pivot)) atomicMin(status, start + k);
    const element s = star(pivot);
    element across[COLUMNS], down[ROWS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) across[c] = scale_row(s, row[column_of(c)]);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) down[r] = column[row_of(r)];
    const bool mine_y = threadIdx.y == t, mine_x = threadIdx.x == owner_x(group, t);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const element old = block.a[r][c];
            element entry = plus(old, times(down[r], across[c]));
            if (c == register_x(group, q) && mine_x) entry = scale_column(down[r], s);
            if (r == 4 * group + q && mine_y) entry = c == register_x(group, q) && mine_x ? s : across[c];
#ifdef PIVOTS
            if (ne(entry, old)) block.mark[r][c / 4] = __byte_perm(block.mark[r][c / 4], k, with_byte(c % 4));
#endif
            block.a[r][c] = entry;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_Y *THREADS_X)
    close_block(element *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start, int *P,
                long long p_row_stride, long long p_column_stride, int k0) {
    __shared__ __align__(16) element row[2][SIDE], column[2][SIDE];
    Block block;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const int i = row_of(r), j = column_of(c);
            block.a[r][c] = i < n && j < n ? A[i * row_stride + j * column_stride] : ZERO;
#ifdef PIVOTS
            block.mark[r][c / 4] = ~0u;
#endif
        }
    }
    publish(block, row[0], column[0], 0, 0, 0);
#pragma unroll
    for (int group = 0; group < GROUPS_Y; ++group) {
#pragma unroll 1
        for (int t = 0; t < THREADS_Y; ++t) {
            if (4 * (THREADS_Y * group + t) >= n) break;
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                __syncthreads();
                if (4 * (THREADS_Y * group + t) + q < n) {
                    eliminate(block, row[q % 2], column[q % 2], group, t, q, status, start);
                }
                if (q < 3) {
                    publish(block, row[(q + 1) % 2], column[(q + 1) % 2], group, t, q + 1);
                } else if (t + 1 < THREADS_Y) {
                    publish(block, row[0], column[0], group, t + 1, 0);
                } else if (group + 1 < GROUPS_Y) {
                    publish(block, row[0], column[0], group + 1, 0, 0);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const int i = row_of(r), j = column_of(c);
            if (i < n && j < n) {
                A[i * row_stride + j * column_stride] = block.a[r][c];
#ifdef PIVOTS
                const unsigned mark = block.mark[r][c / 4] >> 8 * (c % 4) & 255;
                if (mark != 255) P[i * p_row_stride + j * p_column_stride] = k0 + (int)mark;
#endif
            }
        }
    }
}
