// Tiles of 32 x 32 in shared memory, worked on by 256 threads: four entries of a column each. Kernels 3 and 5.

#define SIDE 32
#define CELLS (SIDE * SIDE)
#define PART 4  // entries of a thread: column threadIdx.x & 31, rows threadIdx.x >> 5, + 8, + 16, + 24

INLINE void load(element *tile, const element *A, long long stride) {
    const element *from = A + (threadIdx.x >> 5) * stride + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < PART; ++p) tile[threadIdx.x + 256 * p] = from[8 * p * stride];
}

INLINE void keep(element *A, const element *tile, long long stride) {
    element *to = A + (threadIdx.x >> 5) * stride + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < PART; ++p) to[8 * p * stride] = tile[threadIdx.x + 256 * p];
}

INLINE void pivot(element *C, const element *A, const element *B, int k, bool left, bool above) {
    const int i = threadIdx.x >> 5, j = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < PART; ++p) {
        if ((left && j == k) || (above && i + 8 * p == k)) continue;
        element *at = C + threadIdx.x + 256 * p;
        *at = plus(*at, times(A[(i + 8 * p) * SIDE + k], B[k * SIDE + j]));
    }
}
