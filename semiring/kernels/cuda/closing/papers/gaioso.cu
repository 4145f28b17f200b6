// Gaioso and others, "Paralelizacao do algoritmo Floyd-Warshall usando GPU", WSCAD 2013
// (doi:10.5753/wscad.2013.16769), algorithm 3 and figures 4 to 6, measured on a Tesla C2075: two launches a stage,
// tiles of 32 x 32, a thread for each entry. The first launch has a multiple of the blocks that run at once; each
// closes the diagonal tile for itself, so that none waits for another, and goes on with its share of the tiles of the
// row and the column. The second is a block for each other tile. All tiles are in shared memory.
//
// What deviates: every replica starts from the same unclosed tile. In the paper one block writes the closed tile back
// while others may still read it, and a float tile closed twice differs by rounding. Here one block, another one in
// each stage as in the paper, puts it aside, and the second launch, which does not read it, brings it back.
//
// THREADS 256 is our variant: four entries a thread, and in the second launch these are in registers. n is a multiple
// of 32.
#ifndef THREADS
#define THREADS 1024
#endif
#include "semiring.cuh"
#include "cells.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    replicated(element *A, long long stride, int tiles, int stage, element *aside) {
    __shared__ element closed[CELLS], tile[CELLS];
    load(closed, A + (stage << 5) * (stride + 1), stride);
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(closed, closed, closed, k, true, true);
    }
    __syncthreads();
    if (blockIdx.x == stage % gridDim.x) keep(aside, closed, SIDE);
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

extern "C" __global__ void __launch_bounds__(THREADS)
    others(element *A, long long stride, int stage, const element *aside) {
    __shared__ element left[CELLS], above[CELLS];
#if THREADS == 1024
    __shared__ element tile[CELLS];
#endif
    element *at = A + (blockIdx.y << 5) * stride + (blockIdx.x << 5);
    if (blockIdx.x == stage || blockIdx.y == stage) {
        if (blockIdx.x == blockIdx.y) keep(at, aside, stride);
        return;
    }
    load(left, A + (blockIdx.y << 5) * stride + (stage << 5), stride);
    load(above, A + (stage << 5) * stride + (blockIdx.x << 5), stride);
#if THREADS == 1024
    multiply_in_shared_memory(at, tile, left, above, stride);
#else
    multiply_in_registers(at, left, above, stride);
#endif
}
