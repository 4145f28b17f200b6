// The look-ahead kernel, a successor of staged load (Lund and Smith 2010). A stage is 64 pivots, in two phases:
//
//   panels:     A_KR <- A_KR plus A_KK* A_KR and A_RK <- A_RK plus A_RK A_KK*, as products, because A_KK* is closed
//   remainder:  A_RR <- A_RR plus A_RK A_KR in tiles of TILE_ROWS x TILE_COLUMNS
//
// Look-ahead: one thread block only closes pivot blocks. While the other blocks compute stage s, it updates pivot block
// s + 1 to A_LL plus A_LK (A_KK* A_KL), and closes it. A_KL and A_LK are those before the stage. The matrix entries
// A_KL and A_LK are being replaced. So this block reads copies of the two tiles, which the blocks that finished them
// stored in the preceding stage. The chain of n dependent pivots therefore never waits for the n x n updates. Nor do
// the updates wait for the chain, as long as they take longer.
//
// HELD: where each multiprocessor can hold a tile of its own (n <= 2048 on 132 multiprocessors), the tile stays in
// registers in all stages. Otherwise tiles are read from memory and written back, one after the other. Panels are read
// by asynchronous copies, 16 k at a time. Where floats are compared by their bits, one 3-input minimum combines two k.
// In a phase, no block reads what another block writes. The exception is A_LL, which a streamed tile reads together
// with the adjacent blocks, and discards. All stages are one cooperative launch, with barriers of the grid between
// phases.
//
// Measured on an H200 (2026-11-21, float32 min-plus, in cycles of 1.98 GHz). A stage of n = 1024 takes 26,000 cycles.
// The chain takes 23,000 of them: two products of 64 x 64 x 64 take 5,000, and 32 steps of a pair of pivots 11,000. A
// barrier takes 2,000. A stage of n = 2048 takes 53,000 cycles: panels take 5,000, two barriers 6,000, the copies of
// panels into shared memory 3,000, and the tile 36,000. The tile uses 72 % of the issue slots. Alternatives at n =
// 2048:
//
//   tiles of 128 x 128 from memory, one block of 256 threads per multiprocessor   0.985 ms
//   the same, two blocks, with or without reading the next tile in advance        1.06 to 1.11
//   tiles in registers, two blocks of 256 threads                                 0.93 to 0.95
//   tiles in registers, one block of 512 threads, 256 x 128                       0.859
//   the same without barriers after the second slice                              0.855 (0.834 if enqueued in advance)
//
// Two blocks are slower. One of them finishes after 22,000 cycles, as if the scheduler preferred it. The other one then
// runs alone with too few warps, and finishes after 46,000. Larger matrices need two blocks to hide the latency of C.
// Their blocks therefore take tiles from a counter (n = 8192: 47.5 ms instead of 49.2) and unroll four k instead of
// sixteen (45.0). Tiles in registers are faster with all sixteen (0.855 against 0.89). A barrier is one addition that
// spinning threads poll. This barrier and panels of 32 columns reduced n = 1024 from 0.239 to 0.215 ms. Some changes
// had no effect or cost 2 %: padded rows, sleeping while spinning, a multiprocessor reserved for the chain, and the
// accumulator as the last operand.
//
// Plus must be idempotent; every star is valid. n is a multiple of TILE_ROWS and TILE_COLUMNS, and rows are aligned to
// four elements. Compile it with these, HELD, THREADS, BLOCKS that share a multiprocessor, and UNROLL (see
// `Tile::accumulate`).
#include "semiring.cuh"
#include "pivot_block.cuh"
#include "grid.cuh"

// The numbers of 64 x 64 blocks in a tile.
#define BLOCKS_DOWN (TILE_ROWS / WIDTH)
#define BLOCKS_ACROSS (TILE_COLUMNS / WIDTH)

// ------------------------------------------------------------------------------------------------------ the panels

// Task 2 t updates columns t of the row panel, 64 x PANEL. Task 2 t + 1 updates rows t of the column panel.
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
    const int offset = task / 2 * PANEL;
    if (offset / WIDTH == stage) return;
    if (task % 2 == 0) {
        element *rows = A + stage * WIDTH * stride + offset;
        panel_tile<WIDTH, PANEL>(rows, closed, rows, stride, pool);
    } else {
        element *columns = A + offset * stride + stage * WIDTH;
        panel_tile<PANEL, WIDTH>(columns, columns, closed, stride, pool);
    }
}

// --------------------------------------------------------------------------------------------------- the remainder

typedef Tile<TILE_ROWS, TILE_COLUMNS> RemainderTile;

INLINE int remainder_tasks(int n) { return n / TILE_ROWS * (n / TILE_COLUMNS); }

// The tile (i, j) of the remainder. Sets of its 64 x 64 blocks are bit masks as in `Tile::read`. ``row`` and ``column``
// of a block count from the start of the whole matrix.
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

// Two pairs of copied tiles alternate: one pair is written while the other pair is read.
INLINE element *copies_of(element *copies, int stage) { return copies + stage % 2 * 2 * SQUARE; }

// Copy A_KL and A_LK of the first two pivot blocks before stage 0.
INLINE void store_copies(const element *A, long long stride, int n, element *copies) {
    if (n == WIDTH) return;
    for (int cell = threadIdx.x; cell < SQUARE; cell += THREADS) {
        const int i = cell / WIDTH, j = cell % WIDTH;
        copies[cell] = A[i * stride + WIDTH + j];
        copies[SQUARE + cell] = A[(WIDTH + i) * stride + j];
    }
}

// Copy A_KL and A_LK of blocks K = stage + 1 and L after a stage, where this tile contains them.
INLINE void store_copies(const RemainderTile &tile, const Task &task, int stage, element *copies) {
    const int K = stage + 1, L = stage + 2, i = task.i * BLOCKS_DOWN, j = task.j * BLOCKS_ACROSS;
    const unsigned above = task.block(K, L), left = task.block(L, K);
    if (above) tile.write(copies - ((K - i) * WIDTH + L - j) * WIDTH, WIDTH, ~above);
    if (left) tile.write(copies + SQUARE - ((L - i) * WIDTH + K - j) * WIDTH, WIDTH, ~left);
}

#if HELD

// The single tile of a thread block, in its registers in all stages. The block writes to memory only what other blocks
// read: the panels of the next stage, or the pivot block of the stage after that.
struct Remainder {
    RemainderTile tile;
    Task task;
    element *entries;
    bool has_tile;

    INLINE Remainder(element *A, long long stride, int n, int worker, int)
        : task(worker, n), entries(task.of(A, stride)), has_tile(worker < remainder_tasks(n)) {
        if (has_tile) tile.read(entries, stride, task.block(0, 0));  // another block closes the masked pivot block
    }
    // Read the panels of the preceding stage, which other blocks updated. Entries that are panels in this stage too are
    // skipped, because they are being replaced.
    INLINE void begin(long long stride, int stage) {
        const unsigned blocks_to_read = task.in_panels(stage - 1) & ~task.in_panels(stage);
        if (has_tile && blocks_to_read) tile.read(entries, stride, ~blocks_to_read);
    }
    INLINE void update(element *A, long long stride, int, int stage, element *copies, element *pool, unsigned *) {
        if (!has_tile) return;
        task.fetch(A, stride, stage, pool);
        multiply_fetched(tile, pool);
        const unsigned panels = task.in_row(stage + 1) ^ task.in_column(stage + 1);
        const unsigned blocks_to_write = (panels | task.block(stage + 2, stage + 2)) & ~task.in_panels(stage);
        if (blocks_to_write) tile.write(entries, stride, ~blocks_to_write);
        store_copies(tile, task, stage, copies);
    }
    INLINE void end(long long stride, int last) {
        if (has_tile) tile.write(entries, stride, task.in_panels(last));
    }
};

#else

// All tiles, one after the other, from memory and back. Each thread block begins with its own tile, and then repeatedly
// takes the next remaining tile from a counter. One of two blocks on a multiprocessor runs nearly twice as fast as the
// other, so that a fixed division would waste time.
struct Remainder {
    int worker, workers;

    INLINE Remainder(element *, long long, int, int worker, int workers) : worker(worker), workers(workers) {}
    INLINE void begin(long long, int) {}
    INLINE void update(element *A, long long stride, int n, int stage, element *copies, element *pool,
                       unsigned *tile_counter) {
        volatile int *next = (volatile int *)(pool + OPERANDS<TILE_ROWS, TILE_COLUMNS>);
#pragma unroll 1
        for (int t = worker; t < remainder_tasks(n); t = *next) {
            const Task task(t, n);
            element *entries = task.of(A, stride);
            RemainderTile tile;
            task.fetch(A, stride, stage, pool);
            tile.read(entries, stride);
            multiply_fetched(tile, pool);
            if (threadIdx.x == 0) *next = workers + atomicAdd(tile_counter, 1);
            tile.write(entries, stride, task.in_panels(stage) | task.block(stage + 1, stage + 1));
            store_copies(tile, task, stage, copies);
            __syncthreads();
        }
        __syncthreads();
    }
    INLINE void end(long long, int) {}
};
#endif

// ------------------------------------------------------------------------------------------------------ the launch

// The last block closes pivot blocks, and the other blocks do all other work. ``stages`` may be less than n / 64,
// because later pivots are only padding. ``barrier`` has two words, which are 0 before the first launch. Each launch
// leaves them ready for the next launch, whatever its grid. The third word is the counter of tiles, which each stage
// sets to 0. ``copies`` holds two pairs of tiles.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    all_stages(element *A, long long stride, int n, int stages, unsigned *status, unsigned first, unsigned *barrier,
               element *copies) {
    DYNAMIC_SHARED(bytes);
    element *pool = (element *)bytes;
    const int worker = blockIdx.x, workers = gridDim.x - 1;
    if (worker == workers) {
        if (threadIdx.x >= PIVOT_THREADS) return;
        const PivotMemory memory(pool);
        close_first(A, stride, status, first, memory);
        for (int stage = 0; stage < stages; ++stage) {
            meet(barrier, true, workers + 1);
            if (stage + 1 < stages) close_next(A, stride, stage, copies_of(copies, stage), status, first, memory);
        }
    } else {
        if (worker == 0) store_copies(A, stride, n, copies);
        Remainder remainder(A, stride, n, worker, workers);
        for (int stage = 0; stage < stages; ++stage) {
            meet(barrier, false, workers + 1);
            remainder.begin(stride, stage);
            if (worker == 0 && threadIdx.x == 0) barrier[2] = 0;
            for (int task = worker; task < panel_tasks(n); task += workers) panel(A, stride, stage, task, pool);
            meet(barrier + 1, worker == 0, workers);
            remainder.update(A, stride, n, stage, copies_of(copies, stage + 1), pool, barrier + 2);
        }
        remainder.end(stride, stages - 1);
    }
}
