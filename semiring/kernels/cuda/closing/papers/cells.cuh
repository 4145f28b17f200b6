// Tiles of 32 x 32 in shared memory, worked on by THREADS threads: PART entries of a column each.

#define SIDE 32
#define CELLS (SIDE * SIDE)
#ifndef THREADS
#define THREADS 256
#endif
#define PART (CELLS / THREADS)  // entries of a thread: column threadIdx.x & 31, rows threadIdx.x >> 5, + STEP, ...
#define STEP (THREADS / SIDE)

INLINE void load(element *tile, const element *A, long long stride) {
    const element *from = A + (threadIdx.x >> 5) * stride + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < PART; ++p) tile[threadIdx.x + THREADS * p] = from[STEP * p * stride];
}

INLINE void keep(element *A, const element *tile, long long stride) {
    element *to = A + (threadIdx.x >> 5) * stride + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < PART; ++p) to[STEP * p * stride] = tile[threadIdx.x + THREADS * p];
}

INLINE void pivot(element *C, const element *A, const element *B, int k, bool left, bool above) {
    const int i = threadIdx.x >> 5, j = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < PART; ++p) {
        if ((left && j == k) || (above && i + STEP * p == k)) continue;
        element *at = C + threadIdx.x + THREADS * p;
        *at = plus(*at, times(A[(i + STEP * p) * SIDE + k], B[k * SIDE + j]));
    }
}

// The tile at ``to`` <- itself plus left times above, its entries in registers.
INLINE void multiply_in_registers(element *to, const element *left, const element *above, long long stride) {
    const int i = threadIdx.x >> 5, j = threadIdx.x & 31;
    to += i * stride + j;
    element c[PART];
#pragma unroll
    for (int p = 0; p < PART; ++p) c[p] = to[STEP * p * stride];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
#pragma unroll
        for (int p = 0; p < PART; ++p) {
            c[p] = plus(c[p], times(left[(i + STEP * p) * SIDE + k], above[k * SIDE + j]));
        }
    }
#pragma unroll
    for (int p = 0; p < PART; ++p) to[STEP * p * stride] = c[p];
}

// The same, its entries in shared memory.
INLINE void multiply_in_shared_memory(
    element *to, element *tile, const element *left, const element *above, long long stride) {
    load(tile, to, stride);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; ++k) pivot(tile, left, above, k, false, false);
    keep(to, tile, stride);
}
