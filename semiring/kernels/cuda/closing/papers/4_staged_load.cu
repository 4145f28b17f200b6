// 4. Staged load (Lund and Smith 2010, sections 4.1 to 4.3). The doubly dependent tile is in registers, 64 threads of
// 16 entries; of its two panels only 4 of the 32 pivots are in shared memory at a time, 1 KB in all, so that many
// blocks share a multiprocessor and hide each other's waits. To read 4 columns as fast as 4 rows the matrix is brought
// into the doubly tiled order first: tiles of 32 x 32 one after the other, row by row, and within each, tiles of 4 x 4.
// Sixteen threads work on one tile of 4 x 4, each beginning with another of the 4 pivots, (i + j) mod 4, so that their
// reads of either panel meet 16 different banks.
//
// The first two phases are kernel 3's in this order of the data. n is a multiple of 32.
#include "semiring.cuh"

#define SIDE 32
#define CELLS (SIDE * SIDE)

// Where entry (i, j) of a tile of 32 x 32 lies in it.
INLINE int place(int i, int j) { return (i / 4 * 8 + j / 4) * 16 + i % 4 * 4 + j % 4; }
INLINE element *tile_of(element *T, int tiles, int i, int j) { return T + (i * (long long)tiles + j) * CELLS; }

// The matrix into the doubly tiled order, and back; a block of 256 threads a tile.
extern "C" __global__ void __launch_bounds__(256) to_tiles(element *T, const element *A, long long stride) {
    element *tile = tile_of(T, gridDim.x, blockIdx.y, blockIdx.x);
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) {
        const int i = cell / SIDE, j = cell % SIDE;
        tile[place(i, j)] = A[(blockIdx.y * SIDE + i) * stride + blockIdx.x * SIDE + j];
    }
}
extern "C" __global__ void __launch_bounds__(256) from_tiles(element *A, element *T, long long stride) {
    const element *tile = tile_of(T, gridDim.x, blockIdx.y, blockIdx.x);
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) {
        const int i = cell / SIDE, j = cell % SIDE;
        A[(blockIdx.y * SIDE + i) * stride + blockIdx.x * SIDE + j] = tile[place(i, j)];
    }
}

INLINE void pivot(element *C, const element *A, const element *B, int k) {
#pragma unroll
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) {
        const int i = cell / SIDE, j = cell % SIDE;
        if ((C == A && j == k) || (C == B && i == k)) continue;
        element *at = C + place(i, j);
        *at = plus(*at, times(A[place(i, k)], B[place(k, j)]));
    }
}

extern "C" __global__ void __launch_bounds__(256) independent(element *T, int tiles, int stage) {
    __shared__ element tile[CELLS];
    element *at = tile_of(T, tiles, stage, stage);
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) tile[cell] = at[cell];
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(tile, tile, tile, k);
    }
    __syncthreads();
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) at[cell] = tile[cell];
}

extern "C" __global__ void __launch_bounds__(256) singly_dependent(element *T, int tiles, int stage) {
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool down = blockIdx.y;
    element *at = down ? tile_of(T, tiles, blockIdx.x, stage) : tile_of(T, tiles, stage, blockIdx.x);
    const element *diagonal = tile_of(T, tiles, stage, stage);
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) closed[cell] = diagonal[cell], tile[cell] = at[cell];
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(tile, down ? tile : closed, down ? closed : tile, k);
    }
    __syncthreads();
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) at[cell] = tile[cell];
}

extern "C" __global__ void __launch_bounds__(64) doubly_dependent(element *T, int tiles, int stage) {
    __shared__ element left[4 * SIDE], above[4 * SIDE];
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *at = tile_of(T, tiles, blockIdx.y, blockIdx.x);
    const element *from_left = tile_of(T, tiles, blockIdx.y, stage), *from_above = tile_of(T, tiles, stage, blockIdx.x);
    const int i = threadIdx.x % 16 / 4, j = threadIdx.x % 4, part = threadIdx.x / 16;
    element c[16];  // entry (i, j) of the small tiles part, part + 4, ...
#pragma unroll
    for (int m = 0; m < 16; ++m) c[m] = at[threadIdx.x + 64 * m];
#pragma unroll 1
    for (int slice = 0; slice < SIDE / 4; ++slice) {
        __syncthreads();
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const int cell = threadIdx.x + 64 * p;
            left[cell] = from_left[(cell / 16 * 8 + slice) * 16 + cell % 16];
            above[cell] = from_above[slice * 8 * 16 + cell];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const int k = (step + i + j) % 4;
#pragma unroll
            for (int m = 0; m < 16; ++m) {
                const int small = part + 4 * m;
                c[m] = plus(c[m], times(left[small / 8 * 16 + i * 4 + k], above[small % 8 * 16 + k * 4 + j]));
            }
        }
    }
#pragma unroll
    for (int m = 0; m < 16; ++m) at[threadIdx.x + 64 * m] = c[m];
}
