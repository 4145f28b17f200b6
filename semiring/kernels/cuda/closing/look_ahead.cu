// The look-ahead kernel, a successor of staged load (Lund and Smith 2010). A stage is 64 pivots, in two phases:
//
//   panels:     A_KR <- A_KR plus A_KK* A_KR and A_RK <- A_RK plus A_RK A_KK*, products, as A_KK* is closed already;
//   remainder:  A_RR <- A_RR plus A_RK A_KR in tiles of TILE_ROWS x TILE_COLUMNS.
//
// Look-ahead: one thread block only closes pivot blocks. While the other blocks work on stage s, it updates block s + 1
// on its own, A_LL plus A_LK (A_KK* A_KL), from A_KL and A_LK before the stage, and closes it. It reads copies of these
// two tiles, which the blocks that finished them in the preceding stage stored, because A_KL and A_LK themselves are
// being replaced. So the chain of n dependent pivots never waits for the n x n work. The work does not wait for the
// chain either, as long as it takes longer.
//
// HELD: where each multiprocessor can have a tile of its own (n <= 2048 on 132 of them), that tile stays in registers
// from the first stage to the last. Otherwise tiles come from memory and go back, one after the other. Panels come in
// by asynchronous copies, 16 k at a time. Two k meet in one 3-input minimum where floats are compared by their bits.
// No phase reads what another thread block writes in it, but for A_LL, which a streamed tile reads with the blocks
// around it and discards. All stages are one cooperative launch with barriers of the grid between phases.
//
// Measured on an H200 (2026-11-21, float32 min-plus, in cycles of 1.98 GHz). A stage of n = 1024 takes 26,000: the
// chain 23,000 (two products of 64 x 64 x 64 at 5,000, 32 steps of a pair of pivots 11,000), a barrier 2,000. One of
// n = 2048 takes 53,000: panels 5,000, two barriers 6,000, the panels' way into shared memory 3,000, the tile 36,000,
// 72 % of the issue slots. What was tried there:
//
//   tiles of 128 x 128 out of memory, one block of 256 threads a multiprocessor   0.985 ms
//   the same, two blocks, either running ahead into its next tile or not         1.06 to 1.11
//   held, two blocks of 256 threads                                              0.93 to 0.95
//   held, one block of 512 threads, 256 x 128                                    0.859
//   the same without barriers after the second slice                             0.855 (0.834 enqueued ahead of time)
//
// Two blocks are worse: one is done after 22,000 cycles, as if the scheduler served it first, and the other one, alone
// with too few warps, after 46,000. So larger matrices, which need two blocks to hide the way of C, take their tiles
// from a counter (n = 8192: 47.5 instead of 49.2 ms) and unroll four k instead of sixteen (45.0). Held tiles want all
// sixteen (0.855 against 0.89). A barrier is one addition that the spinning threads watch; it and panels of 32 columns
// brought n = 1024 from 0.239 to 0.215 ms. Padded rows, sleeping while spinning, a multiprocessor kept free for the
// chain, and the accumulator as last operand changed nothing or lost 2 %.
//
// Takes an idempotent plus and every star; n a multiple of TILE_ROWS and TILE_COLUMNS, rows aligned to four elements.
// Compiled with these, HELD, THREADS, BLOCKS that share a multiprocessor, and UNROLL (see `Tile::accumulate`).
#include "semiring.cuh"
#include "pivot_block.cuh"
#include "grid.cuh"

// The blocks of a tile.
#define BLOCKS_DOWN (TILE_ROWS / WIDTH)
#define BLOCKS_ACROSS (TILE_COLUMNS / WIDTH)

// ------------------------------------------------------------------------------------------------------ the panels

// Task 2 t: columns t of the row panel, 64 x PANEL; 2 t + 1: rows t of the column panel.
#define PANEL 32
INLINE int panel_tasks(int n) { return 2 * (n / PANEL); }

template <int M, int N>
INLINE void panel_tile(element *C, const element *A, const element *B, long long stride, element *pool) {
    Tile<M, N> tile;
    fetch_operands<M, N>(pool, A, B, stride);
    tile.read(C, stride);
    multiply_fetched(tile, pool);
    tile.write(C, stride);
    __syncthreads();
}

INLINE void panel(element *A, long long stride, int stage, int task, element *pool) {
    const element *closed = A + stage * WIDTH * (stride + 1);
    const int at = task / 2 * PANEL;
    if (at / WIDTH == stage) return;
    if (task % 2 == 0) {
        element *rows = A + stage * WIDTH * stride + at;
        panel_tile<WIDTH, PANEL>(rows, closed, rows, stride, pool);
    } else {
        element *columns = A + at * stride + stage * WIDTH;
        panel_tile<PANEL, WIDTH>(columns, columns, closed, stride, pool);
    }
}

// --------------------------------------------------------------------------------------------------- the remainder

typedef Tile<TILE_ROWS, TILE_COLUMNS> RemainderTile;

INLINE int remainder_tasks(int n) { return n / TILE_ROWS * (n / TILE_COLUMNS); }

// The tile (i, j) of the remainder. Sets of its blocks are bits as in `Tile::read`; ``row`` and ``column`` of
// a block are those of the whole matrix.
struct Task {
    int i, j;

    INLINE Task(int task, int n) : i(task / (n / TILE_COLUMNS)), j(task % (n / TILE_COLUMNS)) {}
    INLINE unsigned in_row(int row) const {
        const int p = row - i * BLOCKS_DOWN;
        return p < 0 || p >= BLOCKS_DOWN ? 0 : ((1u << BLOCKS_ACROSS) - 1) << p * BLOCKS_ACROSS;
    }
    INLINE unsigned in_column(int column) const {
        const int q = column - j * BLOCKS_ACROSS;
        const unsigned all = (1u << BLOCKS_DOWN * BLOCKS_ACROSS) - 1, row = (1u << BLOCKS_ACROSS) - 1;
        return q < 0 || q >= BLOCKS_ACROSS ? 0 : all / row << q;
    }
    INLINE unsigned block(int row, int column) const { return in_row(row) & in_column(column); }
    INLINE unsigned in_panels(int stage) const { return in_row(stage) | in_column(stage); }
    INLINE element *of(element *A, long long stride) const { return A + i * TILE_ROWS * stride + j * TILE_COLUMNS; }
    INLINE void fetch(const element *A, long long stride, int stage, element *pool) const {
        fetch_operands<TILE_ROWS, TILE_COLUMNS>(pool, A + i * TILE_ROWS * stride + stage * WIDTH,
                                                A + stage * WIDTH * stride + j * TILE_COLUMNS, stride);
    }
};

// Two pairs of copied blocks alternate: one is written while the other is read.
INLINE element *aside_of(element *aside, int stage) { return aside + stage % 2 * 2 * SQUARE; }

// Copy A_KL and A_LK of the first two blocks before stage 0.
INLINE void put_aside(const element *A, long long stride, int n, element *aside) {
    if (n == WIDTH) return;
    for (int cell = threadIdx.x; cell < SQUARE; cell += THREADS) {
        const int i = cell / WIDTH, j = cell % WIDTH;
        aside[cell] = A[i * stride + WIDTH + j];
        aside[SQUARE + cell] = A[(WIDTH + i) * stride + j];
    }
}

// Copy the same of blocks K = stage + 1 and L after a stage, where they lie in this tile.
INLINE void put_aside(const RemainderTile &tile, const Task &task, int stage, element *aside) {
    const int K = stage + 1, L = stage + 2, i = task.i * BLOCKS_DOWN, j = task.j * BLOCKS_ACROSS;
    const unsigned above = task.block(K, L), left = task.block(L, K);
    if (above) tile.write(aside - ((K - i) * WIDTH + L - j) * WIDTH, WIDTH, ~above);
    if (left) tile.write(aside + SQUARE - ((L - i) * WIDTH + K - j) * WIDTH, WIDTH, ~left);
}

#if HELD

// The one tile of a thread block, in its registers from the first stage to the last. It writes to memory only the parts
// that other blocks read: the panels of the next stage, or the pivot block after that.
struct Remainder {
    RemainderTile tile;
    Task task;
    element *at;
    bool is_there;  // false where the block has no tile

    INLINE Remainder(element *A, long long stride, int n, int worker, int)
        : task(worker, n), at(task.of(A, stride)), is_there(worker < remainder_tasks(n)) {
        if (is_there) tile.read(at, stride, task.block(0, 0));  // the masked block is being closed
    }
    // The updated panels of the preceding stage. Those that are panels in this stage too are being replaced.
    INLINE void begin(long long stride, int stage) {
        const unsigned wanted = task.in_panels(stage - 1) & ~task.in_panels(stage);
        if (is_there && wanted) tile.read(at, stride, ~wanted);
    }
    INLINE void update(element *A, long long stride, int, int stage, element *aside, element *pool, unsigned *) {
        if (!is_there) return;
        task.fetch(A, stride, stage, pool);
        multiply_fetched(tile, pool);
        const unsigned panels = task.in_row(stage + 1) ^ task.in_column(stage + 1);
        const unsigned wanted = (panels | task.block(stage + 2, stage + 2)) & ~task.in_panels(stage);
        if (wanted) tile.write(at, stride, ~wanted);
        put_aside(tile, task, stage, aside);
    }
    INLINE void end(long long stride, int last) {
        if (is_there) tile.write(at, stride, task.in_panels(last));
    }
};

#else

// All tiles, one after the other from memory and back. Each thread block begins with its own tile, and then takes the next
// remaining tile, because one of two blocks on a multiprocessor runs nearly twice as fast as the other.
struct Remainder {
    int worker, workers;

    INLINE Remainder(element *, long long, int, int worker, int workers) : worker(worker), workers(workers) {}
    INLINE void begin(long long, int) {}
    INLINE void update(element *A, long long stride, int n, int stage, element *aside, element *pool, unsigned *taken) {
        volatile int *next = (volatile int *)(pool + OPERANDS<TILE_ROWS, TILE_COLUMNS>);
#pragma unroll 1
        for (int t = worker; t < remainder_tasks(n); t = *next) {
            const Task task(t, n);
            element *at = task.of(A, stride);
            RemainderTile tile;
            task.fetch(A, stride, stage, pool);
            tile.read(at, stride);
            multiply_fetched(tile, pool);
            if (threadIdx.x == 0) *next = workers + atomicAdd(taken, 1);
            tile.write(at, stride, task.in_panels(stage) | task.block(stage + 1, stage + 1));
            put_aside(tile, task, stage, aside);
            __syncthreads();
        }
        __syncthreads();
    }
    INLINE void end(long long, int) {}
};
#endif

// ------------------------------------------------------------------------------------------------------ the launch

// The last block closes pivot blocks, the other blocks do all other work. ``stages``: later pivots are only padding.
// barrier: two words, zeros before the first launch, that each launch leaves ready for the next, whatever its grid; and
// the counter of tiles, set to zero in each stage. aside: two pairs of blocks.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    all_stages(element *A, long long stride, int n, int stages, unsigned *status, unsigned first, unsigned *barrier,
               element *aside) {
    DYNAMIC_SHARED(bytes);
    element *pool = (element *)bytes;
    const int worker = blockIdx.x, workers = gridDim.x - 1;
    if (worker == workers) {
        if (threadIdx.x >= PIVOT_THREADS) return;
        const PivotMemory memory(pool);
        close_first(A, stride, status, first, memory);
        for (int stage = 0; stage < stages; ++stage) {
            meet(barrier, true, workers + 1);
            if (stage + 1 < stages) close_next(A, stride, stage, aside_of(aside, stage), status, first, memory);
        }
    } else {
        if (worker == 0) put_aside(A, stride, n, aside);
        Remainder remainder(A, stride, n, worker, workers);
        for (int stage = 0; stage < stages; ++stage) {
            meet(barrier, false, workers + 1);
            remainder.begin(stride, stage);
            if (worker == 0 && threadIdx.x == 0) barrier[2] = 0;
            for (int task = worker; task < panel_tasks(n); task += workers) panel(A, stride, stage, task, pool);
            meet(barrier + 1, worker == 0, workers);
            remainder.update(A, stride, n, stage, aside_of(aside, stage + 1), pool, barrier + 2);
        }
        remainder.end(stride, stages - 1);
    }
}
