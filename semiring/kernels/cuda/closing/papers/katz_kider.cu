// G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008, after
// Venkataraman, Sahni, Mukhopadhyaya 2003: tiles of 32 x 32 in three launches a stage, every tile in shared memory.
//
//   independent       the tile on the diagonal, a pivot after the other;
//   singly_dependent  the tiles of its row and column, a pivot after the other;
//   doubly_dependent  all other tiles, three of them in shared memory, which leaves room for few blocks.
//
// The side of a tile is an argument that the compiler does not know, so that each entry costs a division and a
// remainder, and loops are as they are written, as in the codes of the time. CONSTANT_SIDE makes the side a constant,
// and changes nothing else: what constants alone gain. n is a multiple of 32; 256 threads of 4 entries each.
#include "semiring.cuh"

#define SIDE 32
#define CELLS (SIDE * SIDE)
#ifdef CONSTANT_SIDE
#define SIDE_OF(given) SIDE
#else
#define SIDE_OF(given) given
#endif

INLINE void load(element *tile, const element *A, long long stride, int side) {
#pragma unroll 1
    for (int cell = threadIdx.x; cell < side * side; cell += blockDim.x) {
        tile[cell] = A[cell / side * stride + cell % side];
    }
}

INLINE void keep(element *A, const element *tile, long long stride, int side) {
#pragma unroll 1
    for (int cell = threadIdx.x; cell < side * side; cell += blockDim.x) {
        A[cell / side * stride + cell % side] = tile[cell];
    }
}

// One pivot: C[i][j] <- C[i][j] plus A[i][k] times B[k][j]. Where C is A, column k stays; where C is B, row k.
INLINE void pivot(element *C, const element *A, const element *B, int k, int side) {
#pragma unroll 1
    for (int cell = threadIdx.x; cell < side * side; cell += blockDim.x) {
        const int i = cell / side, j = cell % side;
        if ((C == A && j == k) || (C == B && i == k)) continue;
        C[cell] = plus(C[cell], times(A[i * side + k], B[k * side + j]));
    }
}

extern "C" __global__ void __launch_bounds__(256) independent(element *A, long long stride, int stage, int given) {
    const int side = SIDE_OF(given);
    __shared__ element tile[CELLS];
    element *at = A + stage * side * (stride + 1);
    load(tile, at, stride, side);
#pragma unroll 1
    for (int k = 0; k < side; ++k) {
        __syncthreads();
        pivot(tile, tile, tile, k, side);
    }
    keep(at, tile, stride, side);
}

// blockIdx.x: the tile along the row (blockIdx.y 0) or down the column (blockIdx.y 1).
extern "C" __global__ void __launch_bounds__(256) singly_dependent(element *A, long long stride, int stage, int given) {
    const int side = SIDE_OF(given);
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool down = blockIdx.y;
    element *at = A + (down ? blockIdx.x : stage) * side * stride + (down ? stage : blockIdx.x) * side;
    load(closed, A + stage * side * (stride + 1), stride, side);
    load(tile, at, stride, side);
#pragma unroll 1
    for (int k = 0; k < side; ++k) {
        __syncthreads();
        pivot(tile, down ? tile : closed, down ? closed : tile, k, side);
    }
    keep(at, tile, stride, side);
}

extern "C" __global__ void __launch_bounds__(256) doubly_dependent(element *A, long long stride, int stage, int given) {
    const int side = SIDE_OF(given);
    __shared__ element left[CELLS], above[CELLS], tile[CELLS];
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *at = A + blockIdx.y * side * stride + blockIdx.x * side;
    load(left, A + blockIdx.y * side * stride + stage * side, stride, side);
    load(above, A + stage * side * stride + blockIdx.x * side, stride, side);
    load(tile, at, stride, side);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < side; ++k) pivot(tile, left, above, k, side);
    keep(at, tile, stride, side);
}
