// Tiles of 32 x 32 in shared memory, processed by THREADS threads with PART entries of a column each, and the first two
// phases of blocked Floyd-Warshall on them. TILED stores tiles of 4 x 4 one after the other, row by row, in place of
// rows. Both orders run the same instructions with other offsets.

#define SIDE 32
#define CELLS (SIDE * SIDE)
#ifndef THREADS
#define THREADS 256
#endif
#define PART (CELLS / THREADS)  // entries of a thread: one column, and rows that are STEP apart
#define STEP (THREADS / SIDE)

// place: the offset of entry (i, j) in a tile. row_in and column_in: the row and column at an offset.
#ifdef TILED
INLINE int place(int i, int j) { return (i / 4 * 8 + j / 4) * 16 + i % 4 * 4 + j % 4; }
INLINE int row_in(int cell) { return cell / 128 * 4 + cell / 4 % 4; }
INLINE int column_in(int cell) { return cell / 16 % 8 * 4 + cell % 4; }
#else
INLINE int place(int i, int j) { return i * SIDE + j; }
INLINE int row_in(int cell) { return cell >> 5; }
INLINE int column_in(int cell) { return cell & 31; }
#endif

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

// One pivot: C[i][j] <- C[i][j] plus A[i][k] times B[k][j]. Entry p of a thread stays if ``first`` + p ``step`` or
// ``second`` is k. Its result is then computed and not stored, so that no thread branches.
INLINE void pivot(element *C, const element *A, const element *B, int k, int first, int step, int second) {
    const element *row = A + place(row_in(threadIdx.x), 0) + place(0, k);
    const element *column = B + place(k, 0) + place(0, column_in(threadIdx.x));
#pragma unroll
    for (int p = 0; p < PART; ++p) {
        element *entry = C + threadIdx.x + THREADS * p;
        const element result = plus(*entry, times(row[THREADS * p], *column));
        if (first + p * step != k && second != k) *entry = result;
    }
}

// The first phase: close a tile. Row k and column k stay.
INLINE void close_tile(element *tile) {
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(tile, tile, tile, k, row_in(threadIdx.x), STEP, column_in(threadIdx.x));
    }
}

// The second phase: tile <- tile plus tile times closed, in which column k stays, or closed times tile, in which row k
// stays. The operands and the numbers are selected once, so that one loop serves both.
INLINE void update_by_closed(element *tile, const element *closed, bool is_column) {
    const element *A = is_column ? tile : closed, *B = is_column ? closed : tile;
    const int first = is_column ? column_in(threadIdx.x) : row_in(threadIdx.x), step = is_column ? 0 : STEP;
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(tile, A, B, k, first, step, -1);
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
    for (int k = 0; k < SIDE; ++k) pivot(tile, left, above, k, -1, 0, -1);
    store_tile(target, tile, stride);
}
