// B. D. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall" (arXiv:1001.4108, 2010), section 4,
// "optimized and blocked": the three phases of Katz and Kider with fewer instructions. The side of a tile is a
// constant, division and remainder are shifts and masks, the loops over pivots and entries are unrolled. All tiles are
// in shared memory.
//
// IN_REGISTERS: section 4.1, the step between this kernel and staged load. The doubly dependent tile is in registers,
// and 8,192 bytes of shared memory hold the two other tiles (8,224 with the arguments on a Tesla C1060). n is a
// multiple of 32; 256 threads.
#include "semiring.cuh"
#include "cells.cuh"

extern "C" __global__ void __launch_bounds__(256) independent(element *A, long long stride, int stage) {
    __shared__ element tile[CELLS];
    element *at = A + (stage << 5) * (stride + 1);
    load(tile, at, stride);
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(tile, tile, tile, k, true, true);
    }
    keep(at, tile, stride);
}

extern "C" __global__ void __launch_bounds__(256) singly_dependent(element *A, long long stride, int stage) {
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool down = blockIdx.y;
    element *at = A + ((down ? blockIdx.x : stage) << 5) * stride + ((down ? stage : blockIdx.x) << 5);
    load(closed, A + (stage << 5) * (stride + 1), stride);
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
}

extern "C" __global__ void __launch_bounds__(256) doubly_dependent(element *A, long long stride, int stage) {
    __shared__ element left[CELLS], above[CELLS];
#ifndef IN_REGISTERS
    __shared__ element tile[CELLS];
#endif
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *at = A + (blockIdx.y << 5) * stride + (blockIdx.x << 5);
    load(left, A + (blockIdx.y << 5) * stride + (stage << 5), stride);
    load(above, A + (stage << 5) * stride + (blockIdx.x << 5), stride);
#ifdef IN_REGISTERS
    multiply_in_registers(at, left, above, stride);
#else
    multiply_in_shared_memory(at, tile, left, above, stride);
#endif
}
