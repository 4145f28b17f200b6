// The closure of a stack of matrices that are too large for one thread block each: the stages of look_ahead.cu,
// 64 pivots each, as two launches for all matrices at once.
//
//   panels:     A_KR <- A_KR plus A_KK* A_KR and A_RK <- A_RK plus A_RK A_KK*;
//   remainders: A_RR <- A_RR plus A_RK A_KR, but for the next pivot block of each matrix: it comes first in the grid,
//               and is brought up to date and closed while the others work.
//
// K is the pivot block and R all others, in blocks of 64 x 64, a thread block each, so no pair is computed twice. Every
// launch reads only what launches before it have written, and the entries that it replaces itself: nothing depends on
// the order of the blocks, nor a matrix on another one.
//
// Measured on an H200 (2026-11-21, float32 min-plus): 100 matrices of 256 rows in 0.182 ms, 20 of 512 in 0.311, 20 of
// 1024 in 2.01 (10.7 T pairs/s). Larger tiles, with the odd block of a row in smaller ones, took 1.13 (128 x 64) and
// 1.24 times as long (128 x 128) for 100 of 256, 0.99 for 20 of 1024, 0.9 where there is too little to do (2 of 1024);
// four k unrolled instead of one 1.03 times. Parts of a stack that fit the second-level cache, one after the other, are
// slower than all at once: 1,000 of 256 in 1.9 instead of 1.4 ms.
//
// Takes an idempotent plus and every star; n a multiple of 64, rows aligned to four elements. Compiled with BLOCKS that
// share a multiprocessor.
#define THREADS 256
#define UNROLL 1
#include "semiring.cuh"
#include "pivot_block.cuh"

// One matrix in a stage.
struct Stage {
    element *A;
    long long stride;
    int stage;

    // Of all blocks of a row but K the one of this number.
    INLINE int other(int number) const { return number + (number >= stage); }
    INLINE element *at(int i, int j) const { return A + i * WIDTH * stride + j * WIDTH; }
    // The block (i, j), brought up to date. When it returns the other blocks have been read.
    INLINE void update(PivotTile &tile, int i, int j, element *pool) const {
        fetch_operands<WIDTH, WIDTH>(pool, at(i, stage), at(stage, j), stride);
        tile.read(at(i, j), stride);
        multiply_fetched(tile, pool);
    }
};

// A block a matrix: its first pivot block. step: from matrix to matrix, in elements, in all kernels. A pivot without a
// star leaves its number in the status, if it is less than what stands there: first + rows x matrix + vertex.
extern "C" __global__ void __launch_bounds__(THREADS)
    first_pivots(element *A, long long stride, long long step, unsigned *status, unsigned first, int rows) {
    DYNAMIC_SHARED(bytes);
    A += blockIdx.x * step;
    PivotTile tile;
    tile.read(A, stride);
    close_tile(tile, (element *)bytes, status, first + blockIdx.x * rows);
    tile.write(A, stride);
}

// 2 (n / 64 - 1) blocks a matrix, first those of the row panel.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    panels(element *A, long long stride, long long step, int n, int stage) {
    DYNAMIC_SHARED(bytes);
    const int others = n / WIDTH - 1, task = blockIdx.x % (2 * others);
    const Stage s = {A + blockIdx.x / (2 * others) * step, stride, stage};
    const int i = task < others ? stage : s.other(task - others), j = task < others ? s.other(task) : stage;
    PivotTile tile;
    s.update(tile, i, j, (element *)bytes);
    tile.write(s.at(i, j), stride);
}

// ``chains`` blocks, one a matrix or, in the last stage, none; and after them the others of each matrix.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    remainders(element *A, long long stride, long long step, int n, int stage, int chains, unsigned *status,
               unsigned first, int rows) {
    DYNAMIC_SHARED(bytes);
    element *pool = (element *)bytes;
    const bool closes = blockIdx.x < chains;
    const int others = n / WIDTH - 1, number = blockIdx.x - chains, task = number % (others * others);
    const Stage s = {A + (closes ? blockIdx.x : number / (others * others)) * step, stride, stage};
    const int i = closes ? stage + 1 : s.other(task / others), j = closes ? i : s.other(task % others);
    if (!closes && i == stage + 1 && j == i) return;
    PivotTile tile;
    s.update(tile, i, j, pool);
    if (closes) {
        __syncthreads();
        close_tile(tile, pool, status, first + blockIdx.x * rows + i * WIDTH);
    }
    tile.write(s.at(i, j), stride);
}
