// 6. Ours. Stages of 64 pivots in two phases each:
//
//   panels:     A_KR <- A_KR plus A_KK* A_KR and A_RK <- A_RK plus A_RK A_KK*, products, as A_KK* is closed already;
//   remainder:  A_RR <- A_RR plus A_RK A_KR in tiles of TILE x TILE; and, first of all, the pivot block of the next stage, to which one
//               thread block brings the same product, and then closes it: nobody waits for it.
//
// Tiles of C stay in registers, operands come in by asynchronous copies in four slices of k, two k meet in one 3-input
// minimum where floats are compared by their bits. No phase reads what another thread block writes in it, so the same
// kernels run as two launches a stage, or all stages in one cooperative launch with a barrier of the grid after each phase.
//
// Takes an idempotent plus and every star; n a multiple of TILE, rows aligned to four elements. Compiled with TILE, 64 or 128.
#include "semiring.cuh"
#include "tiles.cuh"

#define SHARED_A(pool) ((element *)(pool))
#define SHARED_B(pool) ((element *)(pool) + TILE * PITCH)

// ------------------------------------------------------------------------------------------------- the pivot block

// The closure of a tile in registers: pivot k = 16 r + 4 t + q is row r of the threads with ty = 4 t + q, and column q of
// those with tx = 4 r + t. Rows and columns are published in two buffers of 2 x 64 elements that take turns; the next
// pivot's row and column are brought up to date first of all, so that the rest hides the way to shared memory.
//
// Where every star is one, the diagonal is one from the start, and a pivot's row and column need no care: what cycles
// add to them loses against what is there. Then a pivot costs 2 loads and 16 pairs a thread.
INLINE void publish(const Tile<64, 64> &tile, element *line, int r, int t, int q) {
    if (thread_y() == 4 * t + q) {
        Vector<4> row;
#pragma unroll
        for (int c = 0; c < 4; ++c) row.v[c] = tile.c[r][c];
        store<4>(line + 4 * thread_x(), row);
    }
    if (thread_x() == 4 * r + t) {
        Vector<4> column;
#pragma unroll
        for (int i = 0; i < 4; ++i) column.v[i] = tile.c[i][q];
        store<4>(line + WIDTH + 4 * thread_y(), column);
    }
}

struct Pivot {
    Vector<4> row, column;  // star times row; column
    element star;
    int r, t, q;

    INLINE void update(Tile<64, 64> &tile, int i, int j) const {
        element entry = plus(tile.c[i][j], times(column.v[i], row.v[j]));
#ifndef UNIT_STAR
        const bool mine_y = thread_y() == 4 * t + q, mine_x = thread_x() == 4 * r + t;
        if (j == q && mine_x) entry = scale_column(column.v[i], star);
        if (i == r && mine_y) entry = j == q && mine_x ? star : row.v[j];
#endif
        tile.c[i][j] = entry;
    }
};

// Pivot k = 16 r + 4 t + q, and the row and column of the next one, 16 next_r + 4 next_t + next_q, into the other buffer.
INLINE void eliminate(Tile<64, 64> &tile, element *lines, int r, int t, int q, int next_r, int next_t, int next_q,
                      unsigned *status, unsigned start) {
    const element *line = lines + q % 2 * 2 * WIDTH;
    const int k = 16 * r + 4 * t + q;
    Pivot pivot = {load<4>(line + 4 * thread_x()), load<4>(line + WIDTH + 4 * thread_y()), ONE, r, t, q};
    if (threadIdx.x == 0 && status && diverges(line[k])) atomicMin(status, start + k);
#ifndef UNIT_STAR
    pivot.star = star(line[k]);
#pragma unroll
    for (int j = 0; j < 4; ++j) pivot.row.v[j] = scale_row(pivot.star, pivot.row.v[j]);
#endif
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (i == next_r || j == next_q) pivot.update(tile, i, j);
        }
    }
    if (next_r < 4) publish(tile, lines + next_q % 2 * 2 * WIDTH, next_r, next_t, next_q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (i != next_r && j != next_q) pivot.update(tile, i, j);
        }
    }
}

INLINE void close_tile(Tile<64, 64> &tile, element *lines, unsigned *status, unsigned start) {
#ifdef UNIT_STAR
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (tile.row(i) == tile.column(j)) tile.c[i][j] = plus(tile.c[i][j], ONE);
        }
    }
#endif
    publish(tile, lines, 0, 0, 0);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll 1
        for (int t = 0; t < 3; ++t) {
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                __syncthreads();
                eliminate(tile, lines, r, t, q, r, q < 3 ? t : t + 1, (q + 1) % 4, status, start);
            }
        }
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            __syncthreads();
            eliminate(tile, lines, r, 3, q, q < 3 ? r : r + 1, q < 3 ? 3 : 0, (q + 1) % 4, status, start);
        }
    }
}

INLINE void close_first(element *A, long long stride, unsigned *status, unsigned first, unsigned char *pool) {
    Tile<64, 64> tile;
    tile.read(A, stride);
    close_tile(tile, SHARED_A(pool), status, first);
    tile.write(A, stride);
}

INLINE void close_next(element *A, long long stride, int stage, unsigned *status, unsigned first, unsigned char *pool) {
    element *rows = A + (stage + 1) * (long long)WIDTH * stride, *next = rows + (stage + 1) * WIDTH;
    Tile<64, 64> tile;
    multiply_add(tile, next, rows + stage * WIDTH, next - WIDTH * stride, stride, SHARED_A(pool), SHARED_B(pool));
    __syncthreads();
    close_tile(tile, SHARED_A(pool), status, first + (stage + 1) * WIDTH);
    tile.write(next, stride);
}

// ------------------------------------------------------------------------------------------------------ the phases

// Task 2 t: columns t of the row panel, 64 x PANEL; 2 t + 1: rows t of the column panel.
#define PANEL 32
INLINE void panel(element *A, long long stride, int stage, int task, unsigned char *pool) {
    const long long corner = stage * (long long)WIDTH * (stride + 1);
    const int at = task / 2 * PANEL;
    if (at / WIDTH == stage) return;
    const element *closed = A + corner;
    if (task % 2 == 0) {
        element *rows = A + stage * (long long)WIDTH * stride + at;
        Tile<WIDTH, PANEL> tile;
        multiply_add(tile, rows, closed, rows, stride, SHARED_A(pool), SHARED_B(pool));
        tile.write(rows, stride);
    } else {
        element *columns = A + at * stride + stage * WIDTH;
        Tile<PANEL, WIDTH> tile;
        multiply_add(tile, columns, columns, closed, stride, SHARED_A(pool), SHARED_B(pool));
        tile.write(columns, stride);
    }
    __syncthreads();
}

INLINE void remainder_tile(element *A, long long stride, int n, int stage, int task, unsigned char *pool) {
    const int across = n / TILE, parts = TILE / WIDTH, i = task / across, j = task % across;
    unsigned masked = 0;
#pragma unroll
    for (int p = 0; p < parts; ++p) {
#pragma unroll
        for (int q = 0; q < parts; ++q) {
            const int row = i * parts + p, column = j * parts + q;
            const bool done = row == stage || column == stage || (row == stage + 1 && column == stage + 1);
            masked |= (unsigned)done << (2 * p + q);
        }
    }
    if (masked == (parts == 1 ? 1u : 15u)) return;
    element *rows = A + i * (long long)TILE * stride;
    const element *above = A + stage * (long long)WIDTH * stride + j * TILE;
    Tile<TILE, TILE> tile;
    multiply_add(tile, rows + j * TILE, rows + stage * WIDTH, above, stride, SHARED_A(pool), SHARED_B(pool));
    tile.write(rows + j * TILE, stride, masked);
    __syncthreads();
}

INLINE int panel_tasks(int n) { return 2 * (n / PANEL); }
INLINE int remainder_tasks(int n) { return n / TILE * (n / TILE); }

// The thread blocks take the tasks in turns; the last one, which has the fewest, begins with the next pivot block.
INLINE void remainder_phase(element *A, long long stride, int n, int stage, unsigned *status, unsigned first, unsigned char *pool) {
    if (blockIdx.x == gridDim.x - 1 && (stage + 1) * WIDTH < n) {
        close_next(A, stride, stage, status, first, pool);
        __syncthreads();
    }
    for (int task = blockIdx.x; task < remainder_tasks(n); task += gridDim.x) remainder_tile(A, stride, n, stage, task, pool);
}

// ---------------------------------------------------------------------------------------------------- the launches

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    first_block(element *A, long long stride, unsigned *status, unsigned first) {
    DYNAMIC_SHARED(pool);
    close_first(A, stride, status, first, pool);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    stage_panels(element *A, long long stride, int n, int stage) {
    DYNAMIC_SHARED(pool);
    for (int task = blockIdx.x; task < panel_tasks(n); task += gridDim.x) panel(A, stride, stage, task, pool);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    stage_remainder(element *A, long long stride, int n, int stage, unsigned *status, unsigned first) {
    DYNAMIC_SHARED(pool);
    remainder_phase(A, stride, n, stage, status, first, pool);
}

#ifndef ON_HOST
// All blocks of the grid meet. barrier[0] counts arrivals and returns to 0, barrier[1] counts meetings.
INLINE void meet(unsigned *barrier) {
    __syncthreads();
    if (threadIdx.x == 0) {
        volatile unsigned *meetings = barrier + 1;
        const unsigned before = *meetings;
        __threadfence();
        if (atomicInc(barrier, gridDim.x - 1) == gridDim.x - 1) {
            atomicAdd(barrier + 1, 1);
        } else {
            while (*meetings == before) {}
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    all_stages(element *A, long long stride, int n, unsigned *status, unsigned first, unsigned *barrier) {
    DYNAMIC_SHARED(pool);
    if (blockIdx.x == 0) close_first(A, stride, status, first, pool);
    for (int stage = 0; stage < n / WIDTH; ++stage) {
        meet(barrier);
        for (int task = blockIdx.x; task < panel_tasks(n); task += gridDim.x) panel(A, stride, stage, task, pool);
        meet(barrier);
        remainder_phase(A, stride, n, stage, status, first, pool);
    }
}
#endif
