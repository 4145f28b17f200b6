// Close a stack of matrices, each too large for one thread block. The stages are those of look_ahead.cu, 64 pivots
// each. Two launches per stage process all matrices at once:
//
//   panels:     A_KR <- A_KR plus A_KK* A_KR and A_RK <- A_RK plus A_RK A_KK*
//   remainders: A_RR <- A_RR plus A_RK A_KR, except the next pivot block of each matrix. That block comes first in the
//               grid, and is updated and closed while other thread blocks compute the remainders.
//
// K is the pivot block, and R are all other blocks of 64 x 64. Each block has one thread block, so that no pair is
// computed twice. A launch reads only entries that earlier launches wrote, and the entries that it replaces itself. So
// the result depends neither on the order of thread blocks nor on other matrices.
//
// Measured on an H200 (2026-11-21, float32 min-plus): 100 matrices of 256 rows take 0.182 ms, 20 of 512 take 0.311, and
// 20 of 1024 take 2.01 (10.7 T pairs/s). Larger tiles were tried with smaller tiles for the odd block of a row. For 100
// of 256 they took 1.13 times as long (128 x 64) and 1.24 times (128 x 128). They took 0.99 times as long for 20 of
// 1024, and 0.9 times for a small stack (2 of 1024). Unrolling four k instead of one took 1.03 times as long. Parts of
// a stack that fit into the L2 cache, one after the other, are slower than the whole stack: 1,000 of 256 take 1.9 ms
// instead of 1.4.
//
// Plus must be idempotent; every star is valid. n is a multiple of 64, and rows are aligned to four elements. Compile
// it with BLOCKS, the thread blocks that share a multiprocessor.
#define THREADS 256
#define UNROLL 1
#include "semiring.cuh"
#include "pivot_block.cuh"

// One matrix in one stage.
struct Stage {
    element *A;
    long long stride;
    int stage;

    // The block with this number among the blocks of a row, without K.
    INLINE int other(int number) const { return number + (number >= stage); }
    INLINE element *entries(int i, int j) const { return A + i * WIDTH * stride + j * WIDTH; }
    // Read the block (i, j) and update it. All operands have been read when the function returns.
    INLINE void update(PivotTile &tile, int i, int j, element *pool) const {
        fetch_operands<WIDTH, WIDTH>(pool, entries(i, stage), entries(stage, j), stride);
        tile.read(entries(i, j), stride);
        multiply_fetched(tile, pool);
    }
};

// Close the first pivot block of each matrix, one thread block per matrix. ``step`` is the distance between matrices,
// in elements, in all kernels of this file. A pivot without a star has the number first + rows x matrix + vertex. The
// least number is left in the status, unless the status is already less.
extern "C" __global__ void __launch_bounds__(THREADS)
    first_pivots(element *A, long long stride, long long step, unsigned *status, unsigned first, int rows) {
    DYNAMIC_SHARED(bytes);
    A += blockIdx.x * step;
    PivotTile tile;
    tile.read(A, stride);
    close_tile(tile, (element *)bytes, status, first + blockIdx.x * rows);
    tile.write(A, stride);
}

// Update the panels, 2 (n / 64 - 1) blocks per matrix; those of the row panel come first.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    panels(element *A, long long stride, long long step, int n, int stage) {
    DYNAMIC_SHARED(bytes);
    const int others = n / WIDTH - 1, task = blockIdx.x % (2 * others);
    const Stage s = {A + blockIdx.x / (2 * others) * step, stride, stage};
    const int i = task < others ? stage : s.other(task - others), j = task < others ? s.other(task) : stage;
    PivotTile tile;
    s.update(tile, i, j, (element *)bytes);
    tile.write(s.entries(i, j), stride);
}

// Update the remainders. The first ``chains`` blocks close the next pivot blocks: one per matrix, or none in the last
// stage. The other blocks of each matrix follow.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    remainders(element *A, long long stride, long long step, int n, int stage, int chains, unsigned *status,
               unsigned first, int rows) {
    DYNAMIC_SHARED(bytes);
    element *pool = (element *)bytes;
    const bool is_pivot_block = blockIdx.x < chains;
    const int others = n / WIDTH - 1, number = blockIdx.x - chains, task = number % (others * others);
    const Stage s = {A + (is_pivot_block ? blockIdx.x : number / (others * others)) * step, stride, stage};
    const int i = is_pivot_block ? stage + 1 : s.other(task / others), j = is_pivot_block ? i : s.other(task % others);
    if (!is_pivot_block && i == stage + 1 && j == i) return;
    PivotTile tile;
    s.update(tile, i, j, pool);
    if (is_pivot_block) {
        __syncthreads();
        close_tile(tile, pool, status, first + blockIdx.x * rows + i * WIDTH);
    }
    tile.write(s.entries(i, j), stride);
}
