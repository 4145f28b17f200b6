// The closure of a block of at most SIDE rows by one thread block, of a stack of them by as many, where plus is
// idempotent and every star is one: Floyd-Warshall by pairs of pivots.
//
// The diagonal is a plus 1 from the start: one, or what has no star. So a pivot's row and column need no care, as what a
// cycle of weight one adds loses against what is there. The second pivot's row and column are brought up to date by
// every thread for itself, which saves every second barrier and lets two candidates meet an entry in a 3-input minimum.
// Entry by entry the operations are those of one pivot after the other; where one times x is rounded, last bits may
// differ from those of close_block.cu, in which one comes to the diagonal with its pivot.
//
// The matrix lies in registers, ROWS x COLUMNS entries a thread, 4 x 4 of a place: one with threadIdx = (x, y) has rows
// 4 (y + THREADS_Y place) + r and columns 4 (x + THREADS_X place) + c. A pair's rows and columns are published in shared
// memory, in two buffers that take turns, so that one barrier a pair is enough; its rows as soon as they are up to date.
//
// Compiled with SIDE, a multiple of 8 up to 128; PLACES_Y and PLACES_X, 1 or 2, the second one no more than the first;
// and BLOCKS that share a multiprocessor.
//
// H200, float32 min-plus, 2026-11-21, us, pivot by pivot (close_block.cu) and by pairs: 1,000 matrices of 100 rows 179
// and 141, 4,000 of 64 156 and 125, 10,000 of 32 56 and 45, 1,000 of 128 363 and 201; one of 64 12 and 9, of 128 45 and
// 30. Registers decide: 80 a thread, and 48 bytes of spills, let two blocks of 338 threads share a multiprocessor, 88 only
// one (168 us), and 56 spill too much (228). 8 x 8 entries a thread take as long at 100 rows, 264 at 128 with 8 x 4. By fours, the closed corner times
// the four rows published by two warps that wait for each other, a barrier for four pivots: 142, and 37 for one of 128.
// In max-min 1,000 of 100 take 221 and 184.
#include "semiring.cuh"
#include "copies.cuh"

#define ROWS (4 * PLACES_Y)
#define COLUMNS (4 * PLACES_X)
#define THREADS_Y (SIDE / ROWS)
#define THREADS_X (SIDE / COLUMNS)

// Of the pivots k and k + 1 as they are before k.
struct Lines {
    element rows[2][SIDE], columns[2][SIDE];
};

INLINE int row_of(int r) { return 4 * (threadIdx.y + THREADS_Y * (r / 4)) + r % 4; }
INLINE int column_of(int c) { return 4 * (threadIdx.x + THREADS_X * (c / 4)) + c % 4; }

// What a thread begins with: of the two rows its columns, the second one behind the first pivot.
struct Pair {
    element row[COLUMNS], next_row[COLUMNS], over;

    INLINE Pair(const Lines &lines, int k, unsigned *status, unsigned start) : over(lines.rows[0][k + 1]) {
        const element back = lines.rows[1][k];
#pragma unroll
        for (int c = 0; c < COLUMNS; c += 4) {
            const Vector<4> one = load<4>(lines.rows[0] + column_of(c)), two = load<4>(lines.rows[1] + column_of(c));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                row[c + i] = one.v[i], next_row[c + i] = plus(two.v[i], times(back, one.v[i]));
            }
        }
        if (status && threadIdx.x == 0 && threadIdx.y == 0) {
            if (diverges(lines.rows[0][k])) atomicMin(status, start + k);
            if (diverges(plus(lines.rows[1][k + 1], times(back, over)))) atomicMin(status, start + k + 1);
        }
    }
};

struct Block {
    element a[ROWS][COLUMNS];

    // Of the pivots 4 number + q and the next one the rows, which are in ``place`` of some threads; and the columns.
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
    // The rows of one place by a pair.
    INLINE void eliminate(const Lines &lines, const Pair &pair, int place) {
        const Vector<4> column = load<4>(lines.columns[0] + row_of(4 * place));
        const Vector<4> next_column = load<4>(lines.columns[1] + row_of(4 * place));
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const element next = plus(next_column.v[r], times(column.v[r], pair.over));
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                element &entry = a[4 * place + r][c];
                entry = plus(plus(entry, times(column.v[r], pair.row[c])), times(next, pair.next_row[c]));
            }
        }
    }
    // Eliminate the pair 4 number + q, and publish the next one, whose rows are in ``next_place`` if there is one.
    INLINE void step(Lines (&lines)[2], int number, int q, int next_place, unsigned *status, unsigned start) {
        __syncthreads();
        const Lines &now = lines[q / 2];
        Lines &then = lines[1 - q / 2];
        const Pair pair(now, 4 * number + q, status, start);
        const int next_q = 2 - q, next_number = number + q / 2;
        if (next_place < PLACES_Y) {
            eliminate(now, pair, next_place);
            publish_rows(then, next_place, next_number, next_q);
        }
#pragma unroll
        for (int place = 0; place < PLACES_Y; ++place) {
            if (place != next_place) eliminate(now, pair, place);
        }
        if (next_place < PLACES_Y) publish_columns(then, PLACES_X == 1 ? 0 : next_place, next_number, next_q);
    }
    // ``whole``: whether four entries of a row can be read and written at once.
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
        forget(A);  // otherwise the compiler keeps the addresses of `read` in registers
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

// The parameters are those of close_block.cu; this kernel records no pivots, so it does not read those of P.
extern "C" __global__ void __launch_bounds__(THREADS_X *THREADS_Y, BLOCKS)
    close_block(element *A, long long row_stride, long long column_stride, int n, unsigned *status, unsigned start,
                int *P, long long p_row_stride, long long p_column_stride, int k0, long long stack_stride) {
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
