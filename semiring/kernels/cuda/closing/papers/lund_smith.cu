// B. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall" (arXiv:1001.4108, 2010), sections 4.1 to 4.3,
// "staged load". The doubly dependent tile is in registers, with 64 threads of 16 entries. Only SLICE of the 32 pivots
// of its two panels are in shared memory at a time, 1 KB in all. So many blocks share a multiprocessor, and hide each
// other's latency.
//
// First the matrix is converted to the doubly tiled order: tiles of 32 x 32 one after the other, row by row, and within
// each tile, tiles of 4 x 4 in the same way. Reads of 4 columns are then as fast as reads of 4 rows. Sixteen threads
// process one tile of 4 x 4. Each thread begins with a different one of the 4 pivots, (i + j) mod 4. So their reads of
// either panel access 16 different banks.
//
// The first two phases are those of lund_smith_unrolled.cu in this order of the data (TILED): the same instructions for
// each entry, with other offsets. n is a multiple of 32.
//
// The paper has SLICE 4 and none of the following options. Each option removes one cost on today's GPUs, and changes
// nothing else:
//
//   SLICE 8, 16, 32  fewer barriers: there are two per slice
//   ASYNC            panels arrive by asynchronous copies in two buffers, while the preceding slice is processed.
//                    Threads do not wait for them, and there is one barrier per slice.
//   WIDE             a thread computes one whole tile of 4 x 4, and reads both panels four elements at a time: 8 reads
//                    for 64 pairs instead of 40. Rows of a tile of 4 x 4 already hold the pivots of the left panel. The
//                    panel above is stored pivot by pivot in shared memory, so that no banks conflict without the
//                    cyclic order.
//   PAIRED           one 3-input minimum, where the GPU has it, updates an entry by two pivots. In
//                    lund_smith_unrolled.cu the compiler does the same by itself.
//
// CYCLIC 0 takes the pivots of a tile of 4 x 4 in their order, the middle of figure 6. WIDE has no other order.
// REREAD adds a cost. It hides from the compiler which tiles of 4 x 4 are adjacent. A thread then reads the left panel
// again for each of them: 72 reads of shared memory for 64 pairs instead of 40.
//
// SLICE, ASYNC, WIDE and PAIRED together are the step from staged load to look_ahead.cu.
#define TILED
#include "semiring.cuh"
#include "copies.cuh"
#include "cells.cuh"

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
#ifndef CYCLIC
#define CYCLIC 1
#endif
#define PANEL (SIDE * SLICE)  // elements of a slice of one panel
#define GROUPS (SLICE / 4)  // adjacent tiles of 4 x 4 in a slice
#define PIECES (PANEL / 4)  // pieces of four elements

INLINE element *tile_of(element *T, int tiles, int i, int j) { return T + (i * (long long)tiles + j) * CELLS; }

// Copy the matrix into the doubly tiled order, and back, with a block of 256 threads per tile.
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

INLINE void load_tile(element *tile, const element *source) {
#pragma unroll
    for (int p = 0; p < CELLS; p += 256) tile[threadIdx.x + p] = source[threadIdx.x + p];
}

INLINE void store_tile(element *target, const element *tile) {
#pragma unroll
    for (int p = 0; p < CELLS; p += 256) target[threadIdx.x + p] = tile[threadIdx.x + p];
}

extern "C" __global__ void __launch_bounds__(256) independent(element *T, int tiles, int stage) {
    __shared__ element tile[CELLS];
    element *entries = tile_of(T, tiles, stage, stage);
    load_tile(tile, entries);
    close_tile(tile);
    store_tile(entries, tile);
}

extern "C" __global__ void __launch_bounds__(256) singly_dependent(element *T, int tiles, int stage) {
    __shared__ element closed[CELLS], tile[CELLS];
    if (blockIdx.x == stage) return;
    const bool is_column = blockIdx.y;
    element *entries = is_column ? tile_of(T, tiles, blockIdx.x, stage) : tile_of(T, tiles, stage, blockIdx.x);
    load_tile(closed, tile_of(T, tiles, stage, stage));
    load_tile(tile, entries);
    update_by_closed(tile, closed, is_column);
    store_tile(entries, tile);
}

// ------------------------------------------------------------------------------------------------ the third phase

// The offset in the tile of element number ``cell`` in a slice of a panel. The left panel has eight rows of tiles of 4
// x 4, with GROUPS tiles in each. The panel above has GROUPS rows of tiles, which are adjacent in memory.
INLINE unsigned cell_left(unsigned slice, unsigned cell) {
    return cell / (16 * GROUPS) * 128 + slice * 16 * GROUPS + cell % (16 * GROUPS);
}
INLINE unsigned cell_above(unsigned slice, unsigned cell) { return slice * PANEL + cell; }
// The offset of that element in shared memory: the same offset, or, if WIDE, one in the order of pivots, where ``cell``
// must be the first of four columns.
INLINE unsigned shared_above(unsigned cell) {
    return WIDE ? cell / 128 * 128 + cell / 4 % 4 * 32 + cell / 16 % 8 * 4 : cell;
}

INLINE void fetch_slice(element *left, element *above, const element *left_panel, const element *upper_panel,
                        int slice) {
#if ASYNC || WIDE
#pragma unroll
    for (unsigned p = 0; p < 2 * PIECES; p += 64) {  // pieces of four elements, first of the left panel
        const bool is_left = PIECES < 64 ? threadIdx.x < PIECES : p < PIECES;
        const unsigned cell = 4 * (threadIdx.x + p - (is_left ? 0 : PIECES));
        element *target = is_left ? left + cell : above + shared_above(cell);
        const element *source = is_left ? left_panel + cell_left(slice, cell) : upper_panel + cell_above(slice, cell);
#if ASYNC
        copy_four(target, source);
#else
        store(target, load<4>(source));
#endif
    }
    if (ASYNC) commit_copies();
#else
#pragma unroll
    for (unsigned p = 0; p < PANEL; p += 64) {
        const unsigned cell = threadIdx.x + p;
        left[cell] = left_panel[cell_left(slice, cell)];
        above[cell] = upper_panel[cell_above(slice, cell)];
    }
#endif
}

// c <- c plus left times above, for two pivots. The compiler makes one 3-input minimum of the two updates.
INLINE void update_by_two(element &c, element left, element above, element next_left, element next_above) {
    c = plus(plus(c, times(left, above)), times(next_left, next_above));
}

#if WIDE
// The thread computes the entries of the tile of 4 x 4 number threadIdx.x.
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
                    update_by_two(c[4 * i + j], rows[i].v[k], columns.v[j], rows[i].v[k + 1], next.v[j]);
#else
                    c[4 * i + j] = plus(c[4 * i + j], times(rows[i].v[k], columns.v[j]));
#endif
                }
            }
        }
    }
}
INLINE void read_entries(element *c, const element *entries) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const Vector<4> row = load<4>(entries + threadIdx.x * 16 + 4 * i);
#pragma unroll
        for (int j = 0; j < 4; ++j) c[4 * i + j] = row.v[j];
    }
}
INLINE void write_entries(element *entries, const element *c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        Vector<4> row;
#pragma unroll
        for (int j = 0; j < 4; ++j) row.v[j] = c[4 * i + j];
        store(entries + threadIdx.x * 16 + 4 * i, row);
    }
}
#else
// The thread computes entry (i, j) of the tiles of 4 x 4 number part, part + 4, ...
INLINE void multiply_slice(element *c, const element *left, const element *above) {
    const int i = threadIdx.x % 16 / 4, j = threadIdx.x % 4, part = threadIdx.x / 16;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
#pragma unroll
        for (int step = 0; step < 4; step += 1 + PAIRED) {
            const int k = CYCLIC ? (step + i + j) % 4 : step;
#if PAIRED
            const int next = CYCLIC ? (step + 1 + i + j) % 4 : step + 1;
#endif
#pragma unroll
            for (int m = 0; m < 16; ++m) {
#if REREAD
                const int small = part + 4 * m, down = small / 8, across = small % 8;
#else
                const int down = m / 2, across = part + 4 * (m % 2);  // part < 4: two consecutive m read the same rows
#endif
                const element *a = left + (down * GROUPS + group) * 16 + i * 4,
                              *b = above + group * 128 + across * 16 + j;
#if PAIRED
                update_by_two(c[m], a[k], b[k * 4], a[next], b[next * 4]);
#else
                c[m] = plus(c[m], times(a[k], b[k * 4]));
#endif
            }
        }
    }
}
INLINE void read_entries(element *c, const element *entries) {
#pragma unroll
    for (int m = 0; m < 16; ++m) c[m] = entries[threadIdx.x + 64 * m];
}
INLINE void write_entries(element *entries, const element *c) {
#pragma unroll
    for (int m = 0; m < 16; ++m) entries[threadIdx.x + 64 * m] = c[m];
}
#endif

extern "C" __global__ void __launch_bounds__(64) doubly_dependent(element *T, int tiles, int stage) {
    __shared__ __align__(16) element left[1 + ASYNC][PANEL], above[1 + ASYNC][PANEL];
    if (blockIdx.x == stage || blockIdx.y == stage) return;
    element *entries = tile_of(T, tiles, blockIdx.y, blockIdx.x);
    const element *left_panel = tile_of(T, tiles, blockIdx.y, stage),
                  *upper_panel = tile_of(T, tiles, stage, blockIdx.x);
    element c[16];
#if ASYNC
    fetch_slice(left[0], above[0], left_panel, upper_panel, 0);
    read_entries(c, entries);
#pragma unroll 1
    for (int slice = 0; slice < SIDE / SLICE; ++slice) {
        wait_for_copies<0>();
        __syncthreads();  // all copies of the slice are visible, and all reads of the preceding slice are done
        const int next = slice + 1, current = slice % 2;
        if (next < SIDE / SLICE) fetch_slice(left[1 - current], above[1 - current], left_panel, upper_panel, next);
        multiply_slice(c, left[current], above[current]);
    }
#else
    read_entries(c, entries);
#pragma unroll 1
    for (int slice = 0; slice < SIDE / SLICE; ++slice) {
        __syncthreads();
        fetch_slice(left[0], above[0], left_panel, upper_panel, slice);
        __syncthreads();
        multiply_slice(c, left[0], above[0]);
    }
#endif
    write_entries(entries, c);
}
