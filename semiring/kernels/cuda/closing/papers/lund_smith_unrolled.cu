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

#ifndef STAGED
#define STAGED 0
#endif
#ifndef CYCLIC
#define CYCLIC 0
#endif

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

#if STAGED
#define LAST_THREADS 64
// Staged load in rows: 64 threads of 16 entries in registers, and four pivots of each panel in shared memory at a time.
// The threads of half a warp have adjacent entries of a row, so no banks conflict (the top of figure 6). But a slice of
// the left panel is four columns, of which each row is read alone (the top of figure 5). With CYCLIC each thread begins
// with another pivot, as in the tiled order.
INLINE void multiply_in_slices(element *target, element *left, element *above, const element *left_panel,
                               const element *upper_panel, long long stride) {
    const int top = threadIdx.x >> 5, j = threadIdx.x & 31;
    target += top * stride + j;
    element c[16];
#pragma unroll
    for (int m = 0; m < 16; ++m) c[m] = target[2 * m * stride];
#pragma unroll 1
    for (int first = 0; first < SIDE; first += 4) {
        __syncthreads();
#pragma unroll
        for (int p = 0; p < 4 * SIDE; p += 64) {
            const int cell = threadIdx.x + p;
            left[cell] = left_panel[(cell >> 2) * stride + first + (cell & 3)];
            above[cell] = upper_panel[(first + (cell >> 5)) * stride + (cell & 31)];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const int k = CYCLIC ? (step + top + j) & 3 : step;
#pragma unroll
            for (int m = 0; m < 16; ++m) {
                c[m] = plus(c[m], times(left[(top + 2 * m) * 4 + k], above[k * SIDE + j]));
            }
        }
    }
#pragma unroll
    for (int m = 0; m < 16; ++m) target[2 * m * stride] = c[m];
}
#else
#define LAST_THREADS 256
#endif

extern "C" __global__ void __launch_bounds__(LAST_THREADS) doubly_dependent(element *A, long long stride, int stage) {
    __shared__ element left[STAGED ? 4 * SIDE : CELLS], above[STAGED ? 4 * SIDE : CELLS];
#ifndef IN_REGISTERS
    __shared__ element tile[CELLS];
#endif
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *target = A + (blockIdx.y << 5) * stride + (blockIdx.x << 5);
    const element *left_panel = A + (blockIdx.y << 5) * stride + (stage << 5),
                  *upper_panel = A + (stage << 5) * stride + (blockIdx.x << 5);
#if STAGED
    multiply_in_slices(target, left, above, left_panel, upper_panel, stride);
#else
    load(left, left_panel, stride);
    load(above, upper_panel, stride);
#ifdef IN_REGISTERS
    multiply_in_registers(target, left, above, stride);
#else
    multiply_in_shared_memory(target, tile, left, above, stride);
#endif
#endif
}
