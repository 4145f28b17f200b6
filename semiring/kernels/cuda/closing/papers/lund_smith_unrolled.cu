// B. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall" (arXiv:1001.4108, 2010), section 4,
// "optimized and blocked": the three phases of Katz and Kider with fewer instructions. The side of a tile is a
// constant, division and remainder are shifts and masks, and the loops over pivots and entries are unrolled. All tiles
// are in shared memory.
//
// IN_REGISTERS is section 4.1, the step between this kernel and staged load. The doubly dependent tile is in registers.
// The two other tiles take 8,192 bytes of shared memory (8,224 with the arguments on a Tesla C1060). n is a multiple of
// 32. There are 256 threads.
#include "semiring.cuh"
#include "cells.cuh"

extern "C" __global__ void __launch_bounds__(256) independent(element *A, long long stride, int stage) {
    __shared__ element tile[CELLS];
    element *target = A + (stage << 5) * (stride + 1);
    load(tile, target, stride);
    close_tile(tile);
    store_tile(target, tile, stride);
}

extern "C" __global__ void __launch_bounds__(256) singly_dependent(element *A, long long stride, int stage) {
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool is_column = blockIdx.y;
    element *target = A + ((is_column ? blockIdx.x : stage) << 5) * stride + ((is_column ? stage : blockIdx.x) << 5);
    load(closed, A + (stage << 5) * (stride + 1), stride);
    load(tile, target, stride);
    update_by_closed(tile, closed, is_column);
    store_tile(target, tile, stride);
}

extern "C" __global__ void __launch_bounds__(256) doubly_dependent(element *A, long long stride, int stage) {
    __shared__ element left[CELLS], above[CELLS];
#ifndef IN_REGISTERS
    __shared__ element tile[CELLS];
#endif
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *target = A + (blockIdx.y << 5) * stride + (blockIdx.x << 5);
    load(left, A + (blockIdx.y << 5) * stride + (stage << 5), stride);
    load(above, A + (stage << 5) * stride + (blockIdx.x << 5), stride);
#ifdef IN_REGISTERS
    multiply_in_registers(target, left, above, stride);
#else
    multiply_in_shared_memory(target, tile, left, above, stride);
#endif
}
