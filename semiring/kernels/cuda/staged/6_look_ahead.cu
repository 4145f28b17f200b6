// 6. Ours. A stage is 64 pivots, in two phases:
//
//   panels:     A_KR <- A_KR plus A_KK* A_KR and A_RK <- A_RK plus A_RK A_KK*, products, as A_KK* is closed already;
//   remainder:  A_RR <- A_RR plus A_RK A_KR in tiles of TILE x TILE.
//
// Look-ahead: one thread block does nothing but close pivot blocks. While the others work on stage s it brings block s + 1 up
// to date for itself, A_LL plus A_LK (A_KK* A_KL), from A_KL and A_LK as they were before the stage, and closes it. Of these two tiles it
// has copies, put aside by whoever finished them in the stage before: A_KL and A_LK themselves are being replaced. So the chain of
// n dependent pivots never waits for the n x n work, nor the work for the chain while it is the longer one.
//
// A remainder tile stays in registers; slices of 16 k of its panels come in by asynchronous copies into a ring of SLICES
// buffers, those of the next tile while this one is still computed. Two k meet in one 3-input minimum where floats are compared by
// their bits. No phase reads what another thread block writes in it. All stages are one cooperative launch with barriers of the
// grid between phases.
//
// Measured on an H200 (2026-11-21, float32 min-plus). A stage of n = 256 takes 13 us: the chain 11.7 (two products of
// 64 x 64 x 64, then 32 barriers), the panels 2.6, a barrier of the grid 1.5, the remainder 4.5; with the pivot block closed in the
// remainder phase, after the panels, it took 15.5. At n = 4096 a multiprocessor takes 12 us for a tile of 128 x 128, where
// the instructions alone would take 8: two blocks on it win 8 % over one, and neither copies that run ahead into the next tile
// nor fetching the next tile of C into the second-level cache changed that. With two blocks there is no room for the addresses
// beside 64 accumulators: the version that spills 136 bytes of them loses 9 % at n = 8192 against one that spills 16.
//
// Takes an idempotent plus and every star; n a multiple of TILE, rows aligned to four elements. Compiled with TILE, 64 or 128,
// and BLOCKS, the thread blocks that are to share a multiprocessor.
#include "semiring.cuh"
#include "tiles.cuh"

#define SLICES 4
#define SLICE_SIZE (TILE * SLICE_PITCH + SLICE * TILE)
#define SQUARE (WIDTH * WIDTH)

// ------------------------------------------------------------------------------------------------- the pivot block

// The closure of a tile in registers. Row k = 16 r + ty is row r of the threads (ty, .), column k = 4 tx + c column c of the
// threads (., tx). Rows and columns of the pivots are published in two buffers that take turns, so that one barrier for all
// readers is enough; those of the next pivots are brought up to date first of all, and the rest hides their way.
#ifdef UNIT_STAR

// Every star is one: then the diagonal is one from the start, and a pivot's row and column need no care, as what its cycle adds
// to them loses against what is there. Pivots go in pairs, k = 16 r + 4 t + q and k + 1: the second one's row and column are
// brought up to date by every thread for itself, which saves every second barrier and lets two candidates meet an entry
// in a 3-input minimum. Entry by entry the operations are those of one pivot after the other.
#define LINE (4 * WIDTH)  // row k, row k + 1, column k, column k + 1

INLINE void publish(const Tile<64, 64> &tile, element *line, int r, int t, int q) {
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
        const element over = line[k + 1], back = line[WIDTH + k];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            next_row.v[i] = plus(next_row.v[i], times(back, row.v[i]));
            next_column.v[i] = plus(next_column.v[i], times(column.v[i], over));
        }
    }
    INLINE void update(Tile<64, 64> &tile, int i, int j) const {
        const element once = plus(tile.c[i][j], times(column.v[i], row.v[j]));
        tile.c[i][j] = plus(once, times(next_column.v[i], next_row.v[j]));
    }
};

// The pair 16 r + 4 t + q; the next one, of the same meaning, into the other buffer.
INLINE void eliminate(Tile<64, 64> &tile, element *lines, int r, int t, int q, int next_r, int next_t, unsigned *status,
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

INLINE void close_tile(Tile<64, 64> &tile, element *lines, unsigned *status, unsigned start) {
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

INLINE void publish(const Tile<64, 64> &tile, element *line, int r, int t, int q) {
    const int tx = thread_x(), ty = thread_y();
    if (ty == 4 * t + q) {
        store<4>(line + 4 * tx, {tile.c[r][0], tile.c[r][1], tile.c[r][2], tile.c[r][3]});
    }
    if (tx == 4 * r + t) {
        store<4>(line + WIDTH + 4 * ty, {tile.c[0][q], tile.c[1][q], tile.c[2][q], tile.c[3][q]});
    }
}

INLINE void eliminate(Tile<64, 64> &tile, const element *line, int r, int t, int q, unsigned *status, unsigned start) {
    const int k = 16 * r + 4 * t + q;
    const element pivot = line[k], s = star(pivot);
    if (threadIdx.x == 0 && status && diverges(pivot)) atomicMin(status, start + k);
    const Vector<4> row = load<4>(line + 4 * thread_x()), column = load<4>(line + WIDTH + 4 * thread_y());
    const bool mine_y = thread_y() == 4 * t + q, mine_x = thread_x() == 4 * r + t;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const element across = scale_row(s, row.v[j]);
            element entry = plus(tile.c[i][j], times(column.v[i], across));
            if (j == q && mine_x) entry = scale_column(column.v[i], s);
            if (i == r && mine_y) entry = j == q && mine_x ? s : across;
            tile.c[i][j] = entry;
        }
    }
}

INLINE void close_tile(Tile<64, 64> &tile, element *lines, unsigned *status, unsigned start) {
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

// The memory of the block that closes pivot blocks: A_KK*, A_LK in rows of PITCH, A_KL, two buffers of published lines.
struct PivotMemory {
    element *closed, *left, *above, *lines;
    INLINE PivotMemory(unsigned char *pool)
        : closed((element *)pool), left(closed + WIDTH * PITCH), above(left + WIDTH * PITCH), lines(above + SQUARE) {}
};

INLINE void keep_closed(const Tile<64, 64> &tile, element *to, long long stride, const PivotMemory &memory) {
    tile.write(to, stride);
    tile.write(memory.closed, PITCH);
}

INLINE void close_first(element *A, long long stride, unsigned *status, unsigned first, const PivotMemory &memory) {
    Tile<64, 64> tile;
    tile.read(A, stride);
    close_tile(tile, memory.lines, status, first);
    keep_closed(tile, A, stride, memory);
}

// Block L = stage + 1, while shared memory still holds A_KK*; aside: A_KL and A_LK as they were before the stage.
INLINE void close_next(element *A, long long stride, int stage, const element *aside, unsigned *status, unsigned first,
                       const PivotMemory &memory) {
    element *next = A + (stage + 1) * WIDTH * (stride + 1);
    Tile<64, 64> tile;
#pragma unroll 1
    for (int slice = 0; slice < WIDTH; slice += SLICE) {
        fetch_right<64>(memory.above + slice * WIDTH, aside + slice * WIDTH, WIDTH);
        fetch_left<64, PITCH>(memory.left + slice, aside + SQUARE + slice, WIDTH);
    }
    commit_copies();
    tile.read(aside, WIDTH);
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
    keep_closed(tile, next, stride, memory);
}

// ------------------------------------------------------------------------------------------------------ the phases

// Before stage 0: A_KL and A_LK of the first two blocks.
INLINE void put_aside(const element *A, long long stride, int n, element *aside) {
    if (n == WIDTH) return;
    for (int cell = threadIdx.x; cell < SQUARE; cell += THREADS) {
        const int i = cell / WIDTH, j = cell % WIDTH;
        aside[cell] = A[i * stride + WIDTH + j];
        aside[SQUARE + cell] = A[(WIDTH + i) * stride + j];
    }
}

// Task 2 t: columns t of the row panel, 64 x PANEL; 2 t + 1: rows t of the column panel.
#define PANEL 32
INLINE void panel(element *A, long long stride, int stage, int task, unsigned char *pool) {
    const element *closed = A + stage * WIDTH * (stride + 1);
    const int at = task / 2 * PANEL;
    element *a = (element *)pool, *b = a + WIDTH * PITCH;
    if (at / WIDTH == stage) return;
    if (task % 2 == 0) {
        element *rows = A + stage * WIDTH * stride + at;
        Tile<WIDTH, PANEL> tile;
        multiply_add(tile, rows, closed, rows, stride, a, b);
        tile.write(rows, stride);
    } else {
        element *columns = A + at * stride + stage * WIDTH;
        Tile<PANEL, WIDTH> tile;
        multiply_add(tile, columns, columns, closed, stride, a, b);
        tile.write(columns, stride);
    }
    __syncthreads();
}

// A tile of the remainder of a stage.
struct Task {
    int i, j;

    // The quadrants that stay as they are: those of the pivots, and the next pivot block.
    INLINE unsigned masked(int stage) const {
        const int parts = TILE / WIDTH;
        unsigned mask = 0;
#pragma unroll
        for (int p = 0; p < parts; ++p) {
#pragma unroll
            for (int q = 0; q < parts; ++q) {
                const int row = i * parts + p, column = j * parts + q;
                const bool done = row == stage || column == stage || (row == stage + 1 && column == stage + 1);
                mask |= (unsigned)done << (2 * p + q);
            }
        }
        return mask;
    }
    INLINE bool is_masked(int stage) const { return TILE == WIDTH && masked(stage); }
};

// The tasks of a thread block one after the other, ``share`` apart, without a division.
struct Tasks {
    Task at;
    int across, stage, step_i, step_j;

    INLINE Tasks(int first, int share, int n, int stage)
        : at{first / (n / TILE), first % (n / TILE)}, across(n / TILE), stage(stage), step_i(share / across),
          step_j(share % across) {
        skip();
    }
    INLINE bool left() const { return at.i < across; }
    INLINE void step() {
        at.i += step_i;
        at.j += step_j;
        if (at.j >= across) at.j -= across, ++at.i;
    }
    INLINE void skip() {
        while (left() && at.is_masked(stage)) step();
    }
    INLINE void advance() {
        step();
        skip();
    }
};

// The slices of the tasks of a thread block, on their way into the ring, always SLICES - 1 ahead of the computation. A thread
// keeps the addresses of what it copies next: recomputed, they were a tenth of all instructions.
struct Ring {
    element *memory;
    const element *A, *left, *above;  // of this thread's first pieces of the next slice
    long long stride;
    int slice, slot;
    Tasks tasks;

    INLINE Ring(unsigned char *pool, const element *A, long long stride, const Tasks &tasks)
        : memory((element *)pool), A(A), stride(stride), slice(0), slot(0), tasks(tasks) {
        aim();
#pragma unroll 1
        for (int i = 0; i < SLICES - 1; ++i) fetch();
    }
    INLINE void aim() {
        left = A + tasks.at.i * (long long)TILE * stride + tasks.stage * WIDTH;
        above = A + tasks.stage * WIDTH * stride + tasks.at.j * TILE;
        left += threadIdx.x / (SLICE / 4) * stride + threadIdx.x % (SLICE / 4) * 4;
        above += threadIdx.x / (TILE / 4) * stride + threadIdx.x % (TILE / 4) * 4;
    }
    INLINE void fetch() {
        if (tasks.left()) {
            constexpr int STEP_A = THREADS / (SLICE / 4), STEP_B = THREADS / (TILE / 4);
            element *a = memory + slot * SLICE_SIZE, *b = a + TILE * SLICE_PITCH + threadIdx.x * 4;
            a += threadIdx.x / (SLICE / 4) * SLICE_PITCH + threadIdx.x % (SLICE / 4) * 4;
#pragma unroll
            for (int p = 0; p < TILE / STEP_A; ++p) copy_four(a + p * STEP_A * SLICE_PITCH, left + p * STEP_A * stride);
#pragma unroll
            for (int p = 0; p < SLICE / STEP_B; ++p) copy_four(b + p * STEP_B * TILE, above + p * STEP_B * stride);
            left += SLICE;
            above += SLICE * stride;
            slot = (slot + 1) % SLICES;
            slice = (slice + 1) % (WIDTH / SLICE);
            if (slice == 0) {
                tasks.advance();
                aim();
            }
        }
        commit_copies();
    }
};

// What the next stage's block L will want to see as it is now: A_KL and A_LK of K = stage + 1.
INLINE void put_quadrants_aside(const Tile<TILE, TILE> &tile, const Task &task, int stage, element *aside) {
    const int parts = TILE / WIDTH, row = task.i * parts, column = task.j * parts, k = stage + 1;
#define PUT(p, q)                                                                                       \
    if (row + p == k && column + q == k + 1) tile.template write_quadrant<p, q>(aside);                 \
    if (row + p == k + 1 && column + q == k) tile.template write_quadrant<p, q>(aside + SQUARE)
    PUT(0, 0);
#if TILE == 128
    PUT(0, 1);
    PUT(1, 0);
    PUT(1, 1);
#endif
}

INLINE void remainder_phase(element *A, long long stride, int n, int stage, int worker, int workers, element *aside,
                            unsigned char *pool) {
    Tasks tasks(worker, workers, n, stage);
    Ring ring(pool, A, stride, tasks);
    int slot = 0;
    for (; tasks.left(); tasks.advance()) {
        const Task task = tasks.at;
        element *at = A + task.i * (long long)TILE * stride + task.j * TILE;
        Tile<TILE, TILE> tile;
        tile.read(at, stride);
#pragma unroll 1
        for (int slice = 0; slice < WIDTH / SLICE; ++slice) {
            wait_for_copies<SLICES - 2>();
            __syncthreads();
            ring.fetch();
            const element *a = ring.memory + slot * SLICE_SIZE;
            tile.template accumulate<SLICE_PITCH>(a, a + TILE * SLICE_PITCH);
            slot = (slot + 1) % SLICES;
        }
        tile.write(at, stride, task.masked(stage));
        put_quadrants_aside(tile, task, stage, aside);
    }
    wait_for_copies<0>();
    __syncthreads();
}

INLINE int panel_tasks(int n) { return 2 * (n / PANEL); }
// Two pairs of tiles put aside take turns: one is written while the other is read.
INLINE element *aside_of(element *aside, int stage) { return aside + stage % 2 * 2 * SQUARE; }

// ---------------------------------------------------------------------------------------------------- the launches

#ifdef ON_HOST  // where blocks cannot wait for each other: three launches a stage

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    first_block(element *A, long long stride, int n, unsigned *status, unsigned first, element *aside) {
    DYNAMIC_SHARED(pool);
    put_aside(A, stride, n, aside);
    __syncthreads();
    close_first(A, stride, status, first, PivotMemory(pool));
}

// One block; A_KK* is read back.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    next_block(element *A, long long stride, int stage, unsigned *status, unsigned first, element *aside) {
    DYNAMIC_SHARED(pool);
    const PivotMemory memory(pool);
    Tile<64, 64> tile;
    tile.read(A + stage * WIDTH * (stride + 1), stride);
    tile.write(memory.closed, PITCH);
    close_next(A, stride, stage, aside_of(aside, stage), status, first, memory);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    stage_panels(element *A, long long stride, int n, int stage) {
    DYNAMIC_SHARED(pool);
    for (int task = blockIdx.x; task < panel_tasks(n); task += gridDim.x) panel(A, stride, stage, task, pool);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    stage_remainder(element *A, long long stride, int n, int stage, element *aside) {
    DYNAMIC_SHARED(pool);
    remainder_phase(A, stride, n, stage, blockIdx.x, gridDim.x, aside_of(aside, stage + 1), pool);
}

#else

// ``count`` blocks of the grid meet. barrier[0] counts arrivals and returns to 0, barrier[1] counts meetings.
INLINE void meet(unsigned *barrier, unsigned count) {
    __syncthreads();
    if (threadIdx.x == 0) {
        volatile unsigned *meetings = barrier + 1;
        const unsigned before = *meetings;
        __threadfence();
        if (atomicInc(barrier, count - 1) == count - 1) {
            __threadfence();
            atomicAdd(barrier + 1, 1);
        } else {
            while (*meetings == before) {}
        }
        __threadfence();
    }
    __syncthreads();
}

// The last block closes pivot blocks, all others do the rest. barrier: 4 words, as this leaves them; at first 0.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    all_stages(element *A, long long stride, int n, unsigned *status, unsigned first, unsigned *barrier, element *aside) {
    DYNAMIC_SHARED(pool);
    const int workers = gridDim.x - 1, stages = n / WIDTH;
    if (blockIdx.x == workers) {
        const PivotMemory memory(pool);
        close_first(A, stride, status, first, memory);
        for (int stage = 0; stage < stages; ++stage) {
            meet(barrier, workers + 1);
            if (stage + 1 < stages) close_next(A, stride, stage, aside_of(aside, stage), status, first, memory);
        }
    } else {
        if (blockIdx.x == 0) put_aside(A, stride, n, aside);
        for (int stage = 0; stage < stages; ++stage) {
            meet(barrier, workers + 1);
            for (int task = blockIdx.x; task < panel_tasks(n); task += workers) panel(A, stride, stage, task, pool);
            meet(barrier + 2, workers);
            remainder_phase(A, stride, n, stage, blockIdx.x, workers, aside_of(aside, stage + 1), pool);
        }
    }
}
#endif
