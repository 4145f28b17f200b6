// Close a block of at most SIDE rows by one thread block, and a stack of blocks by one thread block each. Plus must be
// idempotent and every star 1. The method is Floyd-Warshall by pairs of pivots.
//
// The diagonal becomes a plus 1 first: that is 1, or a value without a star. So a pivot's row and column need no
// separate update, because a cycle of weight 1 adds only candidates that lose against the entries. Every thread updates
// the row and column of the second pivot itself. This saves every second barrier, and lets two candidates meet an entry
// in a 3-input minimum. Each entry undergoes the same operations as with one pivot after the other. Where 1 times x is
// rounded, last bits may differ from those of close_block.cu, which adds 1 to the diagonal at each pivot.
//
// The matrix is held in registers, ROWS x COLUMNS entries per thread, in places of 4 x 4 entries. The thread with
// threadIdx = (x, y) holds rows 4 (y + THREADS_Y place) + r and columns 4 (x + THREADS_X place) + c. Rows and columns
// of a pair are published in shared memory, and the rows as soon as they are updated. Two buffers alternate, so that
// one barrier per pair suffices.
//
// Compile it with SIDE, a multiple of 8 up to 128; with PLACES_Y and PLACES_X, each 1 or 2 and PLACES_X <= PLACES_Y;
// and with BLOCKS, the thread blocks that share a multiprocessor.
//
// H200, float32 min-plus, 2026-11-21, in us, by single pivots (close_block.cu) and by pairs:
//
//   1,000 matrices of 100 rows   179   141
//   4,000 of 64                  156   125
//   10,000 of 32                  56    45
//   1,000 of 128                 363   201
//   one of 64                     12     9
//   one of 128                    45    30
//   1,000 of 100 in max-min      221   184
//
// Registers limit the speed. With 80 registers per thread and 48 bytes of spills, two blocks of 338 threads share a
// multiprocessor. With 88 registers only one block runs there (168 us), and with 56 the spills are too large (228). 8 x
// 8 entries per thread take as long at 100 rows; at 128 rows, 8 x 4 entries take 264.
//
// Pivots by fours take 142, and 37 for one matrix of 128. In that variant two warps that wait for each other publish
// the closed corner times the four rows, with one barrier per four pivots.
#include "semiring.cuh"
#include "copies.cuh"

#define ROWS (4 * PLACES_Y)
#define COLUMNS (4 * PLACES_X)
#define THREADS_Y (SIDE / ROWS)
#define THREADS_X (SIDE / COLUMNS)

// The rows and columns of the pivots k and k + 1, as they are before pivot k.
struct Lines {
    element rows[2][SIDE], columns[2][SIDE];
};

INLINE int row_of(int r) { return 4 * (threadIdx.y + THREADS_Y * (r / 4)) + r % 4; }
INLINE int column_of(int c) { return 4 * (threadIdx.x + THREADS_X * (c / 4)) + c % 4; }

// A thread's columns of both pivot rows. The second row is updated by the first pivot.
struct Pair {
    element row[COLUMNS], next_row[COLUMNS], upper;  // upper: entry (k, k + 1)

    INLINE Pair(const Lines &lines, int k, unsigned *status, unsigned start) : upper(lines.rows[0][k + 1]) {
        const element lower = lines.rows[1][k];
#pragma unroll
        for (int c = 0; c < COLUMNS; c += 4) {
            const Vector<4> one = load<4>(lines.rows[0] + column_of(c)), two = load<4>(lines.rows[1] + column_of(c));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                row[c + i] = one.v[i], next_row[c + i] = plus(two.v[i], times(lower, one.v[i]));
            }
        }
        if (status && threadIdx.x == 0 && threadIdx.y == 0) {
            if (diverges(lines.rows[0][k])) atomicMin(status, start + k);
            if (diverges(plus(lines.rows[1][k + 1], times(lower, upper)))) atomicMin(status, start + k + 1);
        }
    }
};

struct Block {
    element a[ROWS][COLUMNS];

    // Publish rows or columns of the pivots 4 number + q and the next one, which some threads hold in ``place``.
    INLINE void publish_rows(Lines &lines, int place, int number, int q) const {
        if (threadIdx.y != number - THREADS_Y * place) return;
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const element *row = a[4 * place + q + p];
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 4) {
                store<4>(lines.rows[p] + column_of(c), {row[c], row[c + 1], row[c + 2], row[c + 3]});
            }
        }
    }
    INLINE void publish_columns(Lines &lines, int place, int number, int q) const {
        if (threadIdx.x != number - THREADS_X * place) return;
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const int c = 4 * place + q + p;
#pragma unroll
            for (int r = 0; r < ROWS; r += 4) {
                store<4>(lines.columns[p] + row_of(r), {a[r][c], a[r + 1][c], a[r + 2][c], a[r + 3][c]});
            }
        }
    }
    // Update the rows of one place by a pair of pivots.
    INLINE void eliminate(const Lines &lines, const Pair &pair, int place) {
        const Vector<4> column = load<4>(lines.columns[0] + row_of(4 * place));
        const Vector<4> next_column = load<4>(lines.columns[1] + row_of(4 * place));
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const element next = plus(next_column.v[r], times(column.v[r], pair.upper));
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                element &entry = a[4 * place + r][c];
                entry = plus(plus(entry, times(column.v[r], pair.row[c])), times(next, pair.next_row[c]));
            }
        }
    }
    // Eliminate the pair 4 number + q, and publish the next pair. ``next_place`` holds its rows; it is PLACES_Y if
    // there is no next pair.
    INLINE void step(Lines (&lines)[2], int number, int q, int next_place, unsigned *status, unsigned start) {
        __syncthreads();
        const Lines &current = lines[q / 2];
        Lines &following = lines[1 - q / 2];
        const Pair pair(current, 4 * number + q, status, start);
        const int next_q = 2 - q, next_number = number + q / 2;
        if (next_place < PLACES_Y) {
            eliminate(current, pair, next_place);
            publish_rows(following, next_place, next_number, next_q);
        }
#pragma unroll
        for (int place = 0; place < PLACES_Y; ++place) {
            if (place != next_place) eliminate(current, pair, place);
        }
        if (next_place < PLACES_Y) publish_columns(following, PLACES_X == 1 ? 0 : next_place, next_number, next_q);
    }
    // ``whole``: whether one access may read or write four entries of a row.
    INLINE void read(const element *A, long long row_stride, long long column_stride, int n, bool whole) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const element *row = A + row_of(r) * row_stride;
#pragma unroll
            for (int g = 0; g < COLUMNS; g += 4) {
                const int i = row_of(r), j = column_of(g);
                Vector<4> four = {ZERO, ZERO, ZERO, ZERO};
                if (whole) {
                    if (i < n && j < n) four = load<4>(row + j);
                } else {
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        if (i < n && j + c < n) four.v[c] = row[(j + c) * column_stride];
                    }
                }
#pragma unroll
                for (int c = 0; c < 4; ++c) a[r][g + c] = i == j + c ? plus(four.v[c], ONE) : four.v[c];
            }
        }
    }
    INLINE void write(element *A, long long row_stride, long long column_stride, int n, bool whole) const {
        forget(A);  // otherwise the addresses of `read` would occupy registers until here
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            element *row = A + row_of(r) * row_stride;
#pragma unroll
            for (int g = 0; g < COLUMNS; g += 4) {
                const int i = row_of(r), j = column_of(g);
                if (whole) {
                    if (i < n && j < n) store<4>(row + j, {a[r][g], a[r][g + 1], a[r][g + 2], a[r][g + 3]});
                } else {
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        if (i < n && j + c < n) row[(j + c) * column_stride] = a[r][g + c];
                    }
                }
            }
        }
    }
};

// The parameters are those of close_block.cu.
extern "C" __global__ void __launch_bounds__(THREADS_X *THREADS_Y, BLOCKS)
    close_block(element *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start,
                long long stack_stride) {
    __shared__ __align__(16) Lines lines[2];
    A += blockIdx.x * stack_stride, start += blockIdx.x * n;
    const bool whole = column_stride == 1 && n % 4 == 0 && row_stride % 4 == 0 && (size_t)A % sizeof(Vector<4>) == 0;
    Block block;
    block.read(A, row_stride, column_stride, n, whole);
    block.publish_rows(lines[0], 0, 0, 0);
    block.publish_columns(lines[0], 0, 0, 0);
    const int fours = (n + 3) / 4;
#pragma unroll
    for (int place = 0; place < PLACES_Y; ++place) {
        const int end = THREADS_Y * (place + 1), last = (fours < end ? fours : end) - 1;
#pragma unroll 1
        for (int number = THREADS_Y * place; number < last; ++number) {
            block.step(lines, number, 0, place, status, start);
            block.step(lines, number, 2, place, status, start);
        }
        if (THREADS_Y * place <= last) {
            block.step(lines, last, 0, place, status, start);
            block.step(lines, last, 2, place + 1, status, start);
        }
    }
    block.write(A, row_stride, column_stride, n, whole);
}
