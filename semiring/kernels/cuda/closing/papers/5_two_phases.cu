// 5. Two launches a stage, the diagonal tile closed in every thread block (a paper in Portuguese on Floyd-Warshall with
// intensive occupation of the multiprocessors, measured on a Tesla C2075): the first launch has as many blocks as the
// device runs at once; each closes the diagonal tile for itself, so that none waits for another, and goes on with its
// share of the tiles of the row and column. The second is a block a tile.
//
// Every replica starts from the same unclosed tile: in the paper one block writes the closed one back while others may
// still read it, and a float tile closed twice differs by rounding. Here block 0 puts it aside, and the second launch,
// which does not read it, brings it back. n is a multiple of 32; 256 threads.
#include "semiring.cuh"
#include "cells.cuh"

extern "C" __global__ void __launch_bounds__(256)
    replicated(element *A, long long stride, int tiles, int stage, element *aside) {
    __shared__ element closed[CELLS], tile[CELLS];
    load(closed, A + (stage << 5) * (stride + 1), stride);
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(closed, closed, closed, k, true, true);
    }
    __syncthreads();
    if (blockIdx.x == 0) keep(aside, closed, SIDE);
    for (int task = blockIdx.x; task < 2 * tiles; task += gridDim.x) {
        const int t = task >> 1;
        const bool down = task & 1;
        if (t == stage) continue;
        element *at = A + ((down ? t : stage) << 5) * stride + ((down ? stage : t) << 5);
        load(tile, at, stride);
#pragma unroll
        for (int k = 0; k < SIDE; ++k) {
            __syncthreads();
            if (down) {
                pivot(tile, tile, closed, k, true, false);
            } else {
                pivot(tile, closed, tile, k, false, true);
            }
        }
        keep(at, tile, stride);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(256)
    others(element *A, long long stride, int stage, const element *aside) {
    __shared__ element left[CELLS], above[CELLS];
    element *at = A + (blockIdx.y << 5) * stride + (blockIdx.x << 5);
    if (blockIdx.x == stage || blockIdx.y == stage) {
        if (blockIdx.x == blockIdx.y) keep(at, aside, stride);
        return;
    }
    load(left, A + (blockIdx.y << 5) * stride + (stage << 5), stride);
    load(above, A + (stage << 5) * stride + (blockIdx.x << 5), stride);
    const int i = threadIdx.x >> 5, j = threadIdx.x & 31;
    at += i * stride + j;
    element c[PART];
#pragma unroll
    for (int p = 0; p < PART; ++p) c[p] = at[8 * p * stride];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
#pragma unroll
        for (int p = 0; p < PART; ++p) c[p] = plus(c[p], times(left[(i + 8 * p) * SIDE + k], above[k * SIDE + j]));
    }
#pragma unroll
    for (int p = 0; p < PART; ++p) at[8 * p * stride] = c[p];
}
