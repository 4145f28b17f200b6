// A tile of C in the registers of T threads: C <- C plus A times B over WIDTH steps of k, A and B in shared memory.
//
// T / 16 by 16 threads: one has rows ty, ty + T / 16, ... and columns in groups of (up to) four, 16 groups apart. A
// warp is 4 x 8 threads: its reads of A (four k at once) meet four rows of different banks, those of B 128 bytes in a
// row.
#pragma once
#include "copies.cuh"

#define WIDTH 64  // pivots of a stage
#define SLICE 16  // of k: what is waited for at once
// Of the rows of A in shared memory: those that a warp reads start in different banks.
#define PITCH (WIDTH + 4)

INLINE int thread_x() { return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8; }
INLINE int thread_y() { return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8; }

template <int M, int N, int T = THREADS> struct Tile {
    static constexpr int DOWN = T / 16, ROWS = M / DOWN, COLUMNS = N / 16, PIECE = COLUMNS < 4 ? COLUMNS : 4;
    element c[ROWS][COLUMNS];

    static INLINE int row(int r) { return thread_y() + DOWN * r; }
    static INLINE int column(int c) { return PIECE * thread_x() + 16 * PIECE * (c / PIECE) + c % PIECE; }

    // Blocks of 64 x 64 whose bit of ``masked`` is set stay as they are, here and in `write`: row by row, the
    // first one bit 0.
    static INLINE bool is_in(unsigned blocks, int r, int c) {
        return blocks >> (r * DOWN / 64 * (N < 64 ? 1 : N / 64) + c / 4) & 1;
    }
    INLINE void read(const element *from, long long stride, unsigned masked = 0) {
        from += row(0) * stride + column(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int g = 0; g < COLUMNS; g += PIECE) {
                if (is_in(masked, r, g)) continue;
                const Vector<PIECE> piece = load<PIECE>(from + 16 * g);
#pragma unroll
                for (int p = 0; p < PIECE; ++p) c[r][g + p] = piece.v[p];
            }
            from += DOWN * stride;
        }
    }

    INLINE void write(element *to, long long stride, unsigned masked = 0) const {
        forget(to);  // or the addresses of `read` would be kept for here, at the price of 20 registers
        to += row(0) * stride + column(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int g = 0; g < COLUMNS; g += PIECE) {
                if (is_in(masked, r, g)) continue;
                Vector<PIECE> piece;
#pragma unroll
                for (int p = 0; p < PIECE; ++p) piece.v[p] = c[r][g + p];
                store<PIECE>(to + 16 * g, piece);
            }
            to += DOWN * stride;
        }
    }

    // C <- C plus A times B over SLICE steps of k; a has rows of PITCH_A elements, b of N. UNROLL times four k in
    // one piece.
    template <int PITCH_A> INLINE void accumulate(const element *a, const element *b) {
        a += row(0) * PITCH_A;
        b += column(0);
#pragma unroll UNROLL
        for (int k = 0; k < SLICE; k += 4) {
            Vector<4> left[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) left[r] = load<4>(a + DOWN * r * PITCH_A + k);
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
#ifdef BALANCED
                        if ((r + j) % 3) {
                            const element sooner = times_multiplied(left[r].v[q], upper[j]);
                            c[r][j] = plus(plus(sooner, times_multiplied(left[r].v[q + 1], lower[j])), c[r][j]);
                            continue;
                        }
#endif
                        c[r][j] = plus(plus(c[r][j], times(left[r].v[q], upper[j])), times(left[r].v[q + 1], lower[j]));
                    }
                }
            }
        }
    }
};

// Copy SLICE steps of k asynchronously: of A (M rows) into rows of PITCH_A elements, of B (N columns) into rows of N.
template <int M, int PITCH_A, int T = THREADS> INLINE void fetch_left(element *a, const element *A, long long stride) {
    const int i = threadIdx.x / (SLICE / 4), k = threadIdx.x % (SLICE / 4) * 4;
    constexpr int STEP = T / (SLICE / 4);
    const element *from = A + i * stride + k;
    element *to = a + i * PITCH_A + k;
#pragma unroll
    for (int p = 0; p < M; p += STEP) {
        if (p + STEP <= M || p + i < M) copy_four(to + p * PITCH_A, from);
        from += STEP * stride;
    }
}
template <int N, int T = THREADS> INLINE void fetch_right(element *b, const element *B, long long stride) {
    const int k = threadIdx.x / (N / 4), j = threadIdx.x % (N / 4) * 4;
    constexpr int STEP = T / (N / 4);
    const element *from = B + k * stride + j;
    element *to = b + k * N + j;
#pragma unroll
    for (int p = 0; p < SLICE; p += STEP) {
        if (SLICE >= STEP || k < SLICE) copy_four(to + p * N, from);
        from += STEP * stride;
    }
}

// Elements of shared memory for the operands of a product over WIDTH steps of k: a (M, PITCH) and after it b (WIDTH,
// N).
template <int M, int N> constexpr int OPERANDS = M * PITCH + WIDTH * N;

// Copy them asynchronously, slice by slice of k. Every thread of the block is past its reads of ``pool`` when this is
// called.
template <int M, int N>
INLINE void fetch_operands(element *pool, const element *A, const element *B, long long stride) {
#pragma unroll 1
    for (int k = 0; k < WIDTH; k += SLICE) {
        fetch_left<M, PITCH>(pool + k, A + k, stride);
        fetch_right<N>(pool + M * PITCH + k * N, B + k * stride, stride);
        commit_copies();
    }
}

// C <- C plus A times B of the operands that are on their way. When it returns A and B have been read.
template <int M, int N> INLINE void multiply_fetched(Tile<M, N> &tile, const element *pool) {
#pragma unroll 1
    for (int slice = 0; slice < WIDTH / SLICE; ++slice) {
        if (slice == 0) wait_for_copies<WIDTH / SLICE - 1>();
        if (slice == 1) wait_for_copies<0>();  // they have had the time of a slice
        if (slice < 2) __syncthreads();
        tile.template accumulate<PITCH>(pool + SLICE * slice, pool + M * PITCH + SLICE * slice * N);
    }
}
