// B. D. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall" (arXiv:1001.4108, 2010), sections 4.1 to 4.3,
// "staged load". The doubly dependent tile is in registers, 64 threads of 16 entries; of its two panels only SLICE of
// the 32 pivots are in shared memory at a time, 1 KB in all, so that many blocks share a multiprocessor and hide each
// other's waits. To read 4 columns as fast as 4 rows the matrix is brought into the doubly tiled order first: tiles of
// 32 x 32 one after the other, row by row, and within each, tiles of 4 x 4. Sixteen threads work on one tile of 4 x 4,
// each beginning with another of the 4 pivots, (i + j) mod 4, so that their reads of either panel meet 16 different
// banks.
//
// The first two phases are those of lund_smith_unrolled.cu in this order of the data. n is a multiple of 32.
//
// The paper has SLICE 4 and none of the following. Each removes one cost of it on today's GPUs, and changes nothing
// else:
//
//   SLICE 8, 16, 32  fewer barriers: there are two for each slice;
//   ASYNC            panels come by asynchronous copies into two buffers, while the slice before is computed with: no
//                    wait for them, and one barrier for each slice;
//   WIDE             a thread has one tile of 4 x 4 to itself, and reads both panels four elements at a time: for 64
//                    pairs 8 reads in place of 40. Rows of a tile of 4 x 4 hold the pivots of the left panel already,
//                    and the panel above lies pivot by pivot in shared memory, so that no banks conflict without the
//                    cyclic order.
//   PAIRED           two pivots meet an entry at once, by one 3-input minimum where the GPU has it, as the compiler
//                    does in lund_smith_unrolled.cu by itself.
//
// REREAD adds a cost: the compiler does not see which tiles of 4 x 4 lie side by side, so that a thread reads the left
// panel again for each of them, 72 reads of shared memory for 64 pairs in place of 40.
//
// SLICE, ASYNC, WIDE and PAIRED together are the step from staged load to look_ahead.cu.
#include "semiring.cuh"
#include "copies.cuh"

#ifndef SLICE
#define SLICE 4
#endif
#ifndef WIDE
#define WIDE 0
#endif
#ifndef ASYNC
#define ASYNC 0
#endif
#ifndef PAIRED
#define PAIRED 0
#endif
#ifndef REREAD
#define REREAD 0
#endif
#define SIDE 32
#define CELLS (SIDE * SIDE)
#define PANEL (SIDE * SLICE)  // elements of a slice of one panel
#define GROUPS (SLICE / 4)  // tiles of 4 x 4 side by side in a slice
#define PIECES (PANEL / 4)  // pieces of four elements

// Where entry (i, j) of a tile of 32 x 32 lies in it, and which entry lies in a place.
INLINE int place(int i, int j) { return (i / 4 * 8 + j / 4) * 16 + i % 4 * 4 + j % 4; }
INLINE int row_in(int cell) { return cell / 128 * 4 + cell / 4 % 4; }
INLINE int column_in(int cell) { return cell / 16 % 8 * 4 + cell % 4; }
INLINE element *tile_of(element *T, int tiles, int i, int j) { return T + (i * (long long)tiles + j) * CELLS; }

// The matrix into the doubly tiled order, and back; a block of 256 threads a tile.
extern "C" __global__ void __launch_bounds__(256) to_tiles(element *T, const element *A, long long stride) {
    element *tile = tile_of(T, gridDim.x, blockIdx.y, blockIdx.x);
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) {
        const int i = cell / SIDE, j = cell % SIDE;
        tile[place(i, j)] = A[(blockIdx.y * SIDE + i) * stride + blockIdx.x * SIDE + j];
    }
}
extern "C" __global__ void __launch_bounds__(256) from_tiles(element *A, element *T, long long stride) {
    const element *tile = tile_of(T, gridDim.x, blockIdx.y, blockIdx.x);
    for (int cell = threadIdx.x; cell < CELLS; cell += 256) {
        const int i = cell / SIDE, j = cell % SIDE;
        A[(blockIdx.y * SIDE + i) * stride + blockIdx.x * SIDE + j] = tile[place(i, j)];
    }
}

// ------------------------------------------------------------------------------------------- the first two phases

INLINE void load_tile(element *tile, const element *from) {
#pragma unroll
    for (int p = 0; p < CELLS; p += 256) tile[threadIdx.x + p] = from[threadIdx.x + p];
}

INLINE void keep_tile(element *to, const element *tile) {
#pragma unroll
    for (int p = 0; p < CELLS; p += 256) to[threadIdx.x + p] = tile[threadIdx.x + p];
}

// Threads take the entries in the order of memory, so that their reads and writes meet different banks.
INLINE void pivot(element *C, const element *A, const element *B, int k, bool left, bool above) {
#pragma unroll
    for (int p = 0; p < CELLS; p += 256) {
        const int i = row_in(threadIdx.x + p), j = column_in(threadIdx.x + p);
        if ((left && j == k) || (above && i == k)) continue;
        element *at = C + threadIdx.x + p;
        *at = plus(*at, times(A[place(i, k)], B[place(k, j)]));
    }
}

extern "C" __global__ void __launch_bounds__(256) independent(element *T, int tiles, int stage) {
    __shared__ element tile[CELLS];
    element *at = tile_of(T, tiles, stage, stage);
    load_tile(tile, at);
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        pivot(tile, tile, tile, k, true, true);
    }
    keep_tile(at, tile);
}

extern "C" __global__ void __launch_bounds__(256) singly_dependent(element *T, int tiles, int stage) {
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool down = blockIdx.y;
    element *at = down ? tile_of(T, tiles, blockIdx.x, stage) : tile_of(T, tiles, stage, blockIdx.x);
    load_tile(closed, tile_of(T, tiles, stage, stage));
    load_tile(tile, at);
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        __syncthreads();
        if (down) {
            pivot(tile, tile, closed, k, true, false);
        } else {
            pivot(tile, closed, tile, k, false, true);
        }
    }
    keep_tile(at, tile);
}

// ------------------------------------------------------------------------------------------------ the third phase

// Where element number ``cell`` of a slice of a panel lies in the tile. Left: eight rows of tiles of 4 x 4, GROUPS of
// each. Above: GROUPS rows of tiles, which lie side by side.
INLINE unsigned cell_left(unsigned slice, unsigned cell) {
    return cell / (16 * GROUPS) * 128 + slice * 16 * GROUPS + cell % (16 * GROUPS);
}
INLINE unsigned cell_above(unsigned slice, unsigned cell) { return slice * PANEL + cell; }
// And where it is put in shared memory: as it lies, or if WIDE by pivots above, where it is the first of four columns.
INLINE unsigned home_above(unsigned cell) {
    return WIDE ? cell / 128 * 128 + cell / 4 % 4 * 32 + cell / 16 % 8 * 4 : cell;
}

INLINE void fetch_slice(element *left, element *above, const element *from_left, const element *from_above, int slice) {
#if ASYNC || WIDE
#pragma unroll
    for (unsigned p = 0; p < 2 * PIECES; p += 64) {  // pieces of four elements, those of the left panel first
        const bool is_left = PIECES < 64 ? threadIdx.x < PIECES : p < PIECES;
        const unsigned cell = 4 * (threadIdx.x + p - (is_left ? 0 : PIECES));
        element *to = is_left ? left + cell : above + home_above(cell);
        const element *from = is_left ? from_left + cell_left(slice, cell) : from_above + cell_above(slice, cell);
#if ASYNC
        copy_four(to, from);
#else
        store(to, load<4>(from));
#endif
    }
    if (ASYNC) commit_copies();
#else
#pragma unroll
    for (unsigned p = 0; p < PANEL; p += 64) {
        const unsigned cell = threadIdx.x + p;
        left[cell] = from_left[cell_left(slice, cell)];
        above[cell] = from_above[cell_above(slice, cell)];
    }
#endif
}

// c <- c plus left times above, pivot after pivot. If PAIRED two pivots meet an entry at once: one 3-input minimum.
INLINE void meet(element &c, element left, element above, element next_left, element next_above) {
    c = plus(plus(c, times(left, above)), times(next_left, next_above));
}

#if WIDE
// The thread's entries are those of the tile of 4 x 4 number threadIdx.x.
INLINE void multiply_slice(element *c, const element *left, const element *above) {
    const unsigned down = threadIdx.x / 8, across = threadIdx.x % 8;
    left += down * GROUPS * 16;
    above += across * 4;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
        Vector<4> rows[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) rows[i] = load<4>(left + group * 16 + 4 * i);
#pragma unroll
        for (int k = 0; k < 4; k += 1 + PAIRED) {
            const Vector<4> columns = load<4>(above + group * 128 + k * 32);
#if PAIRED
            const Vector<4> next = load<4>(above + group * 128 + (k + 1) * 32);
#endif
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
#if PAIRED
                    meet(c[4 * i + j], rows[i].v[k], columns.v[j], rows[i].v[k + 1], next.v[j]);
#else
                    c[4 * i + j] = plus(c[4 * i + j], times(rows[i].v[k], columns.v[j]));
#endif
                }
            }
        }
    }
}
INLINE void read_entries(element *c, const element *at) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const Vector<4> row = load<4>(at + threadIdx.x * 16 + 4 * i);
#pragma unroll
        for (int j = 0; j < 4; ++j) c[4 * i + j] = row.v[j];
    }
}
INLINE void write_entries(element *at, const element *c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        Vector<4> row;
#pragma unroll
        for (int j = 0; j < 4; ++j) row.v[j] = c[4 * i + j];
        store(at + threadIdx.x * 16 + 4 * i, row);
    }
}
#else
// The thread's entries are entry (i, j) of the tiles of 4 x 4 number part, part + 4, ...
INLINE void multiply_slice(element *c, const element *left, const element *above) {
    const int i = threadIdx.x % 16 / 4, j = threadIdx.x % 4, part = threadIdx.x / 16;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
#pragma unroll
        for (int step = 0; step < 4; step += 1 + PAIRED) {
            const int k = (step + i + j) % 4;
#if PAIRED
            const int next = (step + 1 + i + j) % 4;
#endif
#pragma unroll
            for (int m = 0; m < 16; ++m) {
#if REREAD
                const int small = part + 4 * m, down = small / 8, across = small % 8;
#else
                const int down = m / 2, across = part + 4 * (m % 2);  // as part < 4: two m read the same rows
#endif
                const element *a = left + (down * GROUPS + group) * 16 + i * 4, *b = above + group * 128 + across * 16 + j;
#if PAIRED
                meet(c[m], a[k], b[k * 4], a[next], b[next * 4]);
#else
                c[m] = plus(c[m], times(a[k], b[k * 4]));
#endif
            }
        }
    }
}
INLINE void read_entries(element *c, const element *at) {
#pragma unroll
    for (int m = 0; m < 16; ++m) c[m] = at[threadIdx.x + 64 * m];
}
INLINE void write_entries(element *at, const element *c) {
#pragma unroll
    for (int m = 0; m < 16; ++m) at[threadIdx.x + 64 * m] = c[m];
}
#endif

extern "C" __global__ void __launch_bounds__(64) doubly_dependent(element *T, int tiles, int stage) {
    __shared__ __align__(16) element left[1 + ASYNC][PANEL], above[1 + ASYNC][PANEL];
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *at = tile_of(T, tiles, blockIdx.y, blockIdx.x);
    const element *from_left = tile_of(T, tiles, blockIdx.y, stage), *from_above = tile_of(T, tiles, stage, blockIdx.x);
    element c[16];
#if ASYNC
    fetch_slice(left[0], above[0], from_left, from_above, 0);
    read_entries(c, at);
#pragma unroll 1
    for (int slice = 0; slice < SIDE / SLICE; ++slice) {
        wait_for_copies<0>();
        __syncthreads();  // the slice is there for all, and all are past their reads of the one before
        const int next = slice + 1, here = slice % 2;
        if (next < SIDE / SLICE) fetch_slice(left[1 - here], above[1 - here], from_left, from_above, next);
        multiply_slice(c, left[here], above[here]);
    }
#else
    read_entries(c, at);
#pragma unroll 1
    for (int slice = 0; slice < SIDE / SLICE; ++slice) {
        __syncthreads();
        fetch_slice(left[0], above[0], from_left, from_above, slice);
        __syncthreads();
        multiply_slice(c, left[0], above[0]);
    }
#endif
    write_entries(at, c);
}
