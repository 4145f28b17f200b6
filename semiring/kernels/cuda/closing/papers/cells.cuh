// Tiles of 32 x 32 in shared memory, processed by THREADS threads with PART entries of a column each.

#define SIDE 32
#define CELLS (SIDE * SIDE)
#ifndef THREADS
#define THREADS 256
#endif
#define PART (CELLS / THREADS)  // entries per thread: column threadIdx.x & 31, rows threadIdx.x >> 5, + STEP, ...
#define STEP (THREADS / SIDE)

INLINE void load(element *tile, const element *A, long long stride) {
    const element *source = A + (threadIdx.x >> 5) * stride + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < PART; ++p) tile[threadIdx.x + THREADS * p] = source[STEP * p * stride];
}

INLINE void store_tile(element *A, const element *tile, long long stride) {
    element *target = A + (threadIdx.x >> 5) * stride + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < PART; ++p) target[STEP * p * stride] = tile[threadIdx.x + THREADS * p];
}

INLINE void pivot(element *C, const element *A, const element *B, int k, bool left, bool above) {
    const int i = threadIdx.x >> 5, j = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < PART; ++p) {
        if ((left && j == k) || (above && i + STEP * p == k)) continue;
        element *entry = C + threadIdx.x + THREADS * p;
        *entry = plus(*entry, times(A[(i + STEP * p) * SIDE + k], B[k * SIDE + j]));
    }
}

// Add left times above to the tile at ``target``, with its entries in registers.
INLINE void multiply_in_registers(element *target, const element *left, const element *above, long long stride) {
    const int i = threadIdx.x >> 5, j = threadIdx.x & 31;
    target += i * stride + j;
    element c[PART];
#pragma unroll
    for (int p = 0; p < PART; ++p) c[p] = target[STEP * p * stride];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
#pragma unroll
        for (int p = 0; p < PART; ++p) {
            c[p] = plus(c[p], times(left[(i + STEP * p) * SIDE + k], above[k * SIDE + j]));
        }
    }
#pragma unroll
    for (int p = 0; p < PART; ++p) target[STEP * p * stride] = c[p];
}

// Add left times above to the tile at ``target``, with its entries in shared memory.
INLINE void multiply_in_shared_memory(
    element *target, element *tile, const element *left, const element *above, long long stride) {
    load(tile, target, stride);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; ++k) pivot(tile, left, above, k, false, false);
    store_tile(target, tile, stride);
}
