// A tile of C in the registers of a block of 256 threads: C <- C plus A times B over WIDTH steps of k, A and B in shared memory.
//
// A thread has rows ty, ty + 16, ... and columns in groups of (up to) four, 16 groups apart. A warp is 4 x 8 threads: its
// reads of A (four k at once) meet four rows of different banks, those of B 128 bytes in a row.
#pragma once
#include "copies.cuh"

#define WIDTH 64  // pivots of a stage
#define SLICE 16  // of k: what is waited for at once
#define THREADS 256
// Of the rows of A in shared memory: those that a warp reads start in different banks.
#define PITCH (WIDTH + 4)
#define SLICE_PITCH (SLICE + 4)

INLINE int thread_x() { return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8; }
INLINE int thread_y() { return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8; }

// The compiler no longer knows where this pointer comes from.
INLINE void forget(element *&pointer) {
#ifndef ON_HOST
    asm volatile("" : "+l"(pointer));
#endif
}

template <int M, int N> struct Tile {
    static constexpr int ROWS = M / 16, COLUMNS = N / 16, PIECE = COLUMNS < 4 ? COLUMNS : 4;
    element c[ROWS][COLUMNS];

    static INLINE int row(int r) { return thread_y() + 16 * r; }
    static INLINE int column(int c) { return PIECE * thread_x() + 16 * PIECE * (c / PIECE) + c % PIECE; }

    INLINE void read(const element *from, long long stride) {
        from += row(0) * stride + column(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int g = 0; g < COLUMNS; g += PIECE) {
                const Vector<PIECE> piece = load<PIECE>(from + 16 * g);
#pragma unroll
                for (int p = 0; p < PIECE; ++p) c[r][g + p] = piece.v[p];
            }
            from += 16 * stride;
        }
    }

    // Quadrants of 64 x 64 of which bit 2 * (row / 64) + column / 64 of ``masked`` is set stay as they are.
    INLINE void write(element *to, long long stride, unsigned masked = 0) const {
        forget(to);  // or the addresses of `read` would be kept for here, at the price of 20 registers
        to += row(0) * stride + column(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int g = 0; g < COLUMNS; g += PIECE) {
                if (masked >> (2 * (r / 4) + g / 4) & 1) continue;
                Vector<PIECE> piece;
#pragma unroll
                for (int p = 0; p < PIECE; ++p) piece.v[p] = c[r][g + p];
                store<PIECE>(to + 16 * g, piece);
            }
            to += 16 * stride;
        }
    }

    // Quadrant (p, q) alone, into 64 x 64 entries.
    template <int P, int Q> INLINE void write_quadrant(element *to) const {
#pragma unroll
        for (int r = 4 * P; r < 4 * P + 4; ++r) {
            store<4>(to + (row(r) - 64 * P) * WIDTH + column(4 * Q) - 64 * Q,
                     {c[r][4 * Q], c[r][4 * Q + 1], c[r][4 * Q + 2], c[r][4 * Q + 3]});
        }
    }

    // C <- C plus A times B over SLICE steps of k; a has rows of PITCH_A elements, b of N. All in one piece: in a loop over four
    // k the addresses cost a tenth of the instructions, and each turn began with a wait for shared memory.
    template <int PITCH_A> INLINE void accumulate(const element *a, const element *b) {
        a += row(0) * PITCH_A;
        b += column(0);
#pragma unroll
        for (int k = 0; k < SLICE; k += 4) {
            Vector<4> left[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) left[r] = load<4>(a + 16 * r * PITCH_A + k);
#pragma unroll
            for (int q = 0; q < 4; q += 2) {
                element upper[COLUMNS], lower[COLUMNS];
#pragma unroll
                for (int g = 0; g < COLUMNS; g += PIECE) {
                    const Vector<PIECE> one = load<PIECE>(b + (k + q) * N + 16 * g);
                    const Vector<PIECE> two = load<PIECE>(b + (k + q + 1) * N + 16 * g);
#pragma unroll
                    for (int p = 0; p < PIECE; ++p) upper[g + p] = one.v[p], lower[g + p] = two.v[p];
                }
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j) {  // two k at once: a 3-input minimum where there is one
                        c[r][j] = plus(plus(c[r][j], times(left[r].v[q], upper[j])), times(left[r].v[q + 1], lower[j]));
                    }
                }
            }
        }
    }
};

// Copy SLICE steps of k asynchronously: of A (M rows) into rows of PITCH_A elements, of B (N columns) into rows of N.
template <int M, int PITCH_A> INLINE void fetch_left(element *a, const element *A, long long stride) {
    const int i = threadIdx.x / (SLICE / 4), k = threadIdx.x % (SLICE / 4) * 4;
    constexpr int STEP = THREADS / (SLICE / 4);
    const element *from = A + i * stride + k;
    element *to = a + i * PITCH_A + k;
#pragma unroll
    for (int p = 0; p < M; p += STEP) {
        if (M >= STEP || i < M) copy_four(to + p * PITCH_A, from);
        from += STEP * stride;
    }
}
template <int N> INLINE void fetch_right(element *b, const element *B, long long stride) {
    const int k = threadIdx.x / (N / 4), j = threadIdx.x % (N / 4) * 4;
    constexpr int STEP = THREADS / (N / 4);
    const element *from = B + k * stride + j;
    element *to = b + k * N + j;
#pragma unroll
    for (int p = 0; p < SLICE; p += STEP) {
        if (SLICE >= STEP || k < SLICE) copy_four(to + p * N, from);
        from += STEP * stride;
    }
}

// The tile of C at ``C`` as it becomes: C plus A times B, with all WIDTH steps of k in shared memory: a (M, PITCH), b (WIDTH, N).
// Every thread of the block is past its reads of shared memory when this is called; A and B are read when it returns.
template <int M, int N>
INLINE void multiply_add(Tile<M, N> &tile, const element *C, const element *A, const element *B, long long stride, element *a,
                         element *b) {
#pragma unroll 1
    for (int first = 0; first < WIDTH; first += SLICE) {
        fetch_left<M, PITCH>(a + first, A + first, stride);
        fetch_right<N>(b + first * N, B + first * stride, stride);
        commit_copies();
    }
    tile.read(C, stride);
#pragma unroll 1
    for (int slice = 0; slice < WIDTH / SLICE; ++slice) {
        if (slice == 0) wait_for_copies<3>();
        if (slice == 1) wait_for_copies<2>();
        if (slice == 2) wait_for_copies<1>();
        if (slice == 3) wait_for_copies<0>();
        __syncthreads();
        tile.template accumulate<PITCH>(a + SLICE * slice, b + SLICE * slice * N);
    }
}
