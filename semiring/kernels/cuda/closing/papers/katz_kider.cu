// G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008, after
// Venkataraman, Sahni, Mukhopadhyaya 2003. Tiles are 32 x 32, with three launches per stage and every tile in shared
// memory.
//
//   independent       the tile on the diagonal, one pivot after the other
//   singly_dependent  the tiles of its row and column, one pivot after the other
//   doubly_dependent  all other tiles. Three tiles are in shared memory, which leaves room for few blocks.
//
// The side of a tile is an argument that the compiler cannot predict. So each entry costs a division and a remainder,
// and loops are not unrolled, as in programs of that time. CONSTANT_SIDE makes the side a constant and changes nothing
// else, which measures the gain from constants alone. n is a multiple of 32. Each of 256 threads has 4 entries; with
// THREADS 1024 a thread has one entry.
#include "semiring.cuh"

#define SIDE 32
#define CELLS (SIDE * SIDE)
#ifndef THREADS
#define THREADS 256
#endif
#if CONSTANT_SIDE
#define SIDE_OF(width) SIDE
#else
#define SIDE_OF(width) width
#endif

INLINE void load(element *tile, const element *A, long long stride, int side) {
#pragma unroll 1
    for (int cell = threadIdx.x; cell < side * side; cell += blockDim.x) {
        tile[cell] = A[cell / side * stride + cell % side];
    }
}

INLINE void store_tile(element *A, const element *tile, long long stride, int side) {
#pragma unroll 1
    for (int cell = threadIdx.x; cell < side * side; cell += blockDim.x) {
        A[cell / side * stride + cell % side] = tile[cell];
    }
}

// One pivot: C[i][j] <- C[i][j] plus A[i][k] times B[k][j]. If C is A, column k stays. If C is B, row k stays.
INLINE void pivot(element *C, const element *A, const element *B, int k, int side) {
#pragma unroll 1
    for (int cell = threadIdx.x; cell < side * side; cell += blockDim.x) {
        const int i = cell / side, j = cell % side;
        if ((C == A && j == k) || (C == B && i == k)) continue;
        C[cell] = plus(C[cell], times(A[i * side + k], B[k * side + j]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) independent(element *A, long long stride, int stage, int width) {
    const int side = SIDE_OF(width);
    __shared__ element tile[CELLS];
    element *target = A + stage * side * (stride + 1);
    load(tile, target, stride, side);
#pragma unroll 1
    for (int k = 0; k < side; ++k) {
        __syncthreads();
        pivot(tile, tile, tile, k, side);
    }
    store_tile(target, tile, stride, side);
}

// blockIdx.x is the number of the tile. It is along the row if blockIdx.y is 0, and down the column if blockIdx.y is 1.
extern "C" __global__ void __launch_bounds__(THREADS) singly_dependent(element *A, long long stride, int stage, int width) {
    const int side = SIDE_OF(width);
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool is_column = blockIdx.y;
    element *target = A + (is_column ? blockIdx.x : stage) * side * stride + (is_column ? stage : blockIdx.x) * side;
    load(closed, A + stage * side * (stride + 1), stride, side);
    load(tile, target, stride, side);
#pragma unroll 1
    for (int k = 0; k < side; ++k) {
        __syncthreads();
        pivot(tile, is_column ? tile : closed, is_column ? closed : tile, k, side);
    }
    store_tile(target, tile, stride, side);
}

extern "C" __global__ void __launch_bounds__(THREADS) doubly_dependent(element *A, long long stride, int stage, int width) {
    const int side = SIDE_OF(width);
    __shared__ element left[CELLS], above[CELLS], tile[CELLS];
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *target = A + blockIdx.y * side * stride + blockIdx.x * side;
    load(left, A + blockIdx.y * side * stride + stage * side, stride, side);
    load(above, A + stage * side * stride + blockIdx.x * side, stride, side);
    load(tile, target, stride, side);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < side; ++k) pivot(tile, left, above, k, side);
    store_tile(target, tile, stride, side);
}
