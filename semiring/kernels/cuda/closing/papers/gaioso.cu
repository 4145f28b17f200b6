// Gaioso, Jradi, de Paula, Alencar, Martins, do Nascimento, Caceres, "Paralelizacao do algoritmo Floyd-Warshall usando
// GPU", WSCAD 2013 (doi:10.5753/wscad.2013.16769), algorithm 3 and figures 4 to 6, measured on a Tesla C2075. There are
// two launches per stage, with tiles of 32 x 32 and one thread per entry. The grid of the first launch is a multiple of
// the number of blocks that run at once. Each block closes its own replica of the diagonal tile, so that no block waits
// for another one. It then updates its share of the tiles in the row and the column. The second launch has one block
// for each remaining tile. All tiles are in shared memory.
//
// One thing differs from the paper: every replica starts from the same unclosed tile. In the paper, one block writes
// the closed tile back while other blocks may still read it. A tile of floats that is closed twice differs by rounding.
// Here one block, a different one in each stage as in the paper, stores its closed tile in ``closed_copy``. The second
// launch, which does not read the diagonal tile, copies it back.
//
// With THREADS 256, a variant of our own, a thread has four entries, which the second launch holds in registers. n is a
// multiple of 32.
#ifndef THREADS
#define THREADS 1024
#endif
#include "semiring.cuh"
#include "cells.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    replicate_diagonal(element *A, long long stride, int tiles, int stage, element *closed_copy) {
    __shared__ element closed[CELLS], tile[CELLS];
    load(closed, A + (stage << 5) * (stride + 1), stride);
    close_tile(closed);
    __syncthreads();
    if (blockIdx.x == stage % gridDim.x) store_tile(closed_copy, closed, SIDE);
    for (int task = blockIdx.x; task < 2 * tiles; task += gridDim.x) {
        const int t = task >> 1;
        const bool is_column = task & 1;
        if (t == stage) continue;
        element *target = A + ((is_column ? t : stage) << 5) * stride + ((is_column ? stage : t) << 5);
        load(tile, target, stride);
        update_by_closed(tile, closed, is_column);
        store_tile(target, tile, stride);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    doubly_dependent(element *A, long long stride, int stage, const element *closed_copy) {
    __shared__ element left[CELLS], above[CELLS];
#if THREADS == 1024
    __shared__ element tile[CELLS];
#endif
    element *target = A + (blockIdx.y << 5) * stride + (blockIdx.x << 5);
    if (blockIdx.x == stage || blockIdx.y == stage) {
        if (blockIdx.x == blockIdx.y) store_tile(target, closed_copy, stride);
        return;
    }
    load(left, A + (blockIdx.y << 5) * stride + (stage << 5), stride);
    load(above, A + (stage << 5) * stride + (blockIdx.x << 5), stride);
#if THREADS == 1024
    multiply_in_shared_memory(target, tile, left, above, stride);
#else
    multiply_in_registers(target, left, above, stride);
#endif
}
