// The pivot blocks of look_ahead.cu: one thread block updates and closes them, one after the other.
#pragma once
#include "tiles.cuh"

#define SQUARE (WIDTH * WIDTH)
#define PIVOT_THREADS 256

typedef Tile<WIDTH, WIDTH, PIVOT_THREADS> PivotTile;

// Close a tile in registers. Row k = 16 r + ty is row r of the threads (ty, .), and column k = 4 tx + c is column c of
// the threads (., tx). The owners publish rows and columns of the pivots in two alternating buffers, so that one
// barrier for all readers suffices. They first update the rows and columns of the next pivots, so that the remaining
// updates hide the latency of publishing.
#ifdef UNIT_STAR

// Every star is 1. Then the diagonal is 1 from the start. A pivot's row and column need no separate update, because its
// cycle adds only candidates that lose against the entries. Pivots are eliminated in pairs, k = 16 r + 4 t + q and k +
// 1. Every thread updates the row and column of the second pivot itself. This saves every second barrier, and lets two
// candidates meet an entry in a 3-input minimum. Each entry undergoes the same operations as with one pivot after the
// other.
#define LINE (4 * WIDTH)  // row k, row k + 1, column k, column k + 1

INLINE void publish(const PivotTile &tile, element *line, int r, int t, int q) {
    const int tx = thread_x(), ty = thread_y(), second = ty - 4 * t - q;
    if (second == 0 || second == 1) {
        store<4>(line + second * WIDTH + 4 * tx, {tile.c[r][0], tile.c[r][1], tile.c[r][2], tile.c[r][3]});
    }
    if (tx == 4 * r + t) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            store<4>(line + (2 + p) * WIDTH + 4 * ty,
                     {tile.c[0][q + p], tile.c[1][q + p], tile.c[2][q + p], tile.c[3][q + p]});
        }
    }
}

struct Pair {
    Vector<4> row, next_row, column, next_column;

    INLINE Pair(const element *line, int k)
        : row(load<4>(line + 4 * thread_x())), next_row(load<4>(line + WIDTH + 4 * thread_x())),
          column(load<4>(line + 2 * WIDTH + 4 * thread_y())), next_column(load<4>(line + 3 * WIDTH + 4 * thread_y())) {
        const element upper = line[k + 1], lower = line[WIDTH + k];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            next_row.v[i] = plus(next_row.v[i], times(lower, row.v[i]));
            next_column.v[i] = plus(next_column.v[i], times(column.v[i], upper));
        }
    }
    INLINE void update(PivotTile &tile, int i, int j) const {
        const element first = plus(tile.c[i][j], times(column.v[i], row.v[j]));
        tile.c[i][j] = plus(first, times(next_column.v[i], next_row.v[j]));
    }
};

// Eliminate the pair 16 r + 4 t + q, and publish the pair of next_r, next_t and 2 - q in the other buffer.
INLINE void eliminate(PivotTile &tile, element *lines, int r, int t, int q, int next_r, int next_t, unsigned *status,
                      unsigned start) {
    const int k = 16 * r + 4 * t + q, next_q = 2 - q;
    const element *line = lines + q / 2 * LINE;
    const Pair pair(line, k);
    if (threadIdx.x == 0 && status) {
        if (diverges(line[k])) atomicMin(status, start + k);
        if (diverges(plus(line[WIDTH + k + 1], times(line[WIDTH + k], line[k + 1])))) atomicMin(status, start + k + 1);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (i == next_r || j / 2 == next_q / 2) pair.update(tile, i, j);
        }
    }
    if (next_r < 4) publish(tile, lines + next_q / 2 * LINE, next_r, next_t, next_q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (i != next_r && j / 2 != next_q / 2) pair.update(tile, i, j);
        }
    }
}

INLINE void close_tile(PivotTile &tile, element *lines, unsigned *status, unsigned start) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (tile.row(i) == tile.column(j)) tile.c[i][j] = plus(tile.c[i][j], ONE);
        }
    }
    publish(tile, lines, 0, 0, 0);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll 1
        for (int t = 0; t < 3; ++t) {
            __syncthreads();
            eliminate(tile, lines, r, t, 0, r, t, status, start);
            __syncthreads();
            eliminate(tile, lines, r, t, 2, r, t + 1, status, start);
        }
        __syncthreads();
        eliminate(tile, lines, r, 3, 0, r, 3, status, start);
        __syncthreads();
        eliminate(tile, lines, r, 3, 2, r + 1, 0, status, start);
    }
}

#else

#define LINE (2 * WIDTH)  // row k, column k

INLINE void publish(const PivotTile &tile, element *line, int r, int t, int q) {
    const int tx = thread_x(), ty = thread_y();
    if (ty == 4 * t + q) {
        store<4>(line + 4 * tx, {tile.c[r][0], tile.c[r][1], tile.c[r][2], tile.c[r][3]});
    }
    if (tx == 4 * r + t) {
        store<4>(line + WIDTH + 4 * ty, {tile.c[0][q], tile.c[1][q], tile.c[2][q], tile.c[3][q]});
    }
}

INLINE void eliminate(PivotTile &tile, const element *line, int r, int t, int q, unsigned *status, unsigned start) {
    const int k = 16 * r + 4 * t + q;
    const element pivot = line[k], s = star(pivot);
    if (threadIdx.x == 0 && status && diverges(pivot)) atomicMin(status, start + k);
    const Vector<4> row = load<4>(line + 4 * thread_x()), column = load<4>(line + WIDTH + 4 * thread_y());
    const bool is_pivot_row = thread_y() == 4 * t + q, is_pivot_column = thread_x() == 4 * r + t;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const element scaled_row = scale_row(s, row.v[j]);
            element entry = plus(tile.c[i][j], times(column.v[i], scaled_row));
            if (j == q && is_pivot_column) entry = scale_column(column.v[i], s);
            if (i == r && is_pivot_row) entry = j == q && is_pivot_column ? s : scaled_row;
            tile.c[i][j] = entry;
        }
    }
}

INLINE void close_tile(PivotTile &tile, element *lines, unsigned *status, unsigned start) {
    publish(tile, lines, 0, 0, 0);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll 1
        for (int t = 0; t < 4; ++t) {
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                __syncthreads();
                eliminate(tile, lines + q % 2 * LINE, r, t, q, status, start);
                if (q < 3) {
                    publish(tile, lines + (q + 1) % 2 * LINE, r, t, q + 1);
                } else if (t < 3) {
                    publish(tile, lines, r, t + 1, 0);
                } else if (r < 3) {
                    publish(tile, lines, r + 1, 0, 0);
                }
            }
        }
    }
}
#endif

// The shared memory of the block that closes pivot blocks: A_KK*, A_LK in rows of PITCH elements, A_KL, and two buffers
// of published lines.
struct PivotMemory {
    element *closed, *left, *above, *lines;
    INLINE PivotMemory(element *pool)
        : closed(pool), left(closed + WIDTH * PITCH), above(left + WIDTH * PITCH), lines(above + SQUARE) {}
};

INLINE void store_closed(const PivotTile &tile, element *target, long long stride, const PivotMemory &memory) {
    tile.write(target, stride);
    tile.write(memory.closed, PITCH);
}

INLINE void close_first(element *A, long long stride, unsigned *status, unsigned first, const PivotMemory &memory) {
    PivotTile tile;
    tile.read(A, stride);
    close_tile(tile, memory.lines, status, first);
    store_closed(tile, A, stride, memory);
}

// Update and close block L = stage + 1, while shared memory still holds A_KK*. ``copies``: A_KL and A_LK as they were
// before the stage.
INLINE void close_next(element *A, long long stride, int stage, const element *copies, unsigned *status, unsigned first,
                       const PivotMemory &memory) {
    element *next = A + (stage + 1) * WIDTH * (stride + 1);
    PivotTile tile;
#pragma unroll 1
    for (int slice = 0; slice < WIDTH; slice += SLICE) {
        fetch_right<WIDTH, PIVOT_THREADS>(memory.above + slice * WIDTH, copies + slice * WIDTH, WIDTH);
        fetch_left<WIDTH, PITCH, PIVOT_THREADS>(memory.left + slice, copies + SQUARE + slice, WIDTH);
    }
    commit_copies();
    tile.read(copies, WIDTH);
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < WIDTH; k += SLICE) tile.accumulate<PITCH>(memory.closed + k, memory.above + k * WIDTH);
    __syncthreads();
    tile.write(memory.above, WIDTH);
    tile.read(next, stride);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < WIDTH; k += SLICE) tile.accumulate<PITCH>(memory.left + k, memory.above + k * WIDTH);
    close_tile(tile, memory.lines, status, first + (stage + 1) * WIDTH);
    store_closed(tile, next, stride, memory);
}
