// A tile of C in the registers of T threads: C <- C plus A times B over WIDTH steps of k, A and B in shared memory.
//
// The threads form T / 16 rows of 16. A thread holds rows ty, ty + T / 16, ... and columns in groups of at most four,
// 16 groups apart. A warp is 4 x 8 threads. Its reads of A (four k at once) access four rows in different banks. Its
// reads of B access 128 contiguous bytes.
#pragma once
#include "copies.cuh"

#define WIDTH 64  // pivots of a stage
#define SLICE 16  // steps of k that one wait covers
// The pitch of the rows of A in shared memory. The rows that a warp reads start in different banks.
#define PITCH (WIDTH + 4)

INLINE int thread_x() { return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8; }
INLINE int thread_y() { return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8; }

template <int M, int N, int T = THREADS> struct Tile {
    static constexpr int DOWN = T / 16, ROWS = M / DOWN, COLUMNS = N / 16, PIECE = COLUMNS < 4 ? COLUMNS : 4;
    element c[ROWS][COLUMNS];

    static INLINE int row(int r) { return thread_y() + DOWN * r; }
    static INLINE int column(int c) { return PIECE * thread_x() + 16 * PIECE * (c / PIECE) + c % PIECE; }

    // ``blocks`` has a bit for each block of 64 x 64, row by row, from bit 0. `read` and `write` skip the blocks whose
    // bit is set in ``masked``.
    static INLINE bool is_in(unsigned blocks, int r, int c) {
        return blocks >> (r * DOWN / 64 * (N < 64 ? 1 : N / 64) + c / 4) & 1;
    }
    INLINE void read(const element *source, long long stride, unsigned masked = 0) {
        source += row(0) * stride + column(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int g = 0; g < COLUMNS; g += PIECE) {
                if (is_in(masked, r, g)) continue;
                const Vector<PIECE> piece = load<PIECE>(source + 16 * g);
#pragma unroll
                for (int p = 0; p < PIECE; ++p) c[r][g + p] = piece.v[p];
            }
            source += DOWN * stride;
        }
    }

    INLINE void write(element *target, long long stride, unsigned masked = 0) const {
        forget(target);  // otherwise the addresses of `read` would occupy 20 registers until here
        target += row(0) * stride + column(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int g = 0; g < COLUMNS; g += PIECE) {
                if (is_in(masked, r, g)) continue;
                Vector<PIECE> piece;
#pragma unroll
                for (int p = 0; p < PIECE; ++p) piece.v[p] = c[r][g + p];
                store<PIECE>(target + 16 * g, piece);
            }
            target += DOWN * stride;
        }
    }

    // C <- C plus A times B over SLICE steps of k. Rows of a have PITCH_A elements, and rows of b have N. UNROLL: how
    // many iterations of four k the compiler unrolls.
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
                    for (int j = 0; j < COLUMNS; ++j) {  // two k at once, by a 3-input minimum if the GPU has one
#ifdef BALANCED
                        if ((r + j) % 3) {
                            const element first_sum = times_multiplied(left[r].v[q], upper[j]);
                            c[r][j] = plus(plus(first_sum, times_multiplied(left[r].v[q + 1], lower[j])), c[r][j]);
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

// Copy SLICE steps of k asynchronously: M rows of A into rows of PITCH_A elements, and N columns of B into rows of N
// elements.
template <int M, int PITCH_A, int T = THREADS> INLINE void fetch_left(element *a, const element *A, long long stride) {
    const int i = threadIdx.x / (SLICE / 4), k = threadIdx.x % (SLICE / 4) * 4;
    constexpr int STEP = T / (SLICE / 4);
    const element *source = A + i * stride + k;
    element *target = a + i * PITCH_A + k;
#pragma unroll
    for (int p = 0; p < M; p += STEP) {
        if (p + STEP <= M || p + i < M) copy_four(target + p * PITCH_A, source);
        source += STEP * stride;
    }
}
template <int N, int T = THREADS> INLINE void fetch_right(element *b, const element *B, long long stride) {
    const int k = threadIdx.x / (N / 4), j = threadIdx.x % (N / 4) * 4;
    constexpr int STEP = T / (N / 4);
    const element *source = B + k * stride + j;
    element *target = b + k * N + j;
#pragma unroll
    for (int p = 0; p < SLICE; p += STEP) {
        if (SLICE >= STEP || k < SLICE) copy_four(target + p * N, source);
        source += STEP * stride;
    }
}

// Elements of shared memory for the operands of a product over WIDTH steps of k: first a (M, PITCH), then b (WIDTH, N).
template <int M, int N> constexpr int OPERANDS = M * PITCH + WIDTH * N;

// Copy the operands asynchronously, slice by slice of k. All threads of the block must have finished their reads of
// ``pool`` before the call.
template <int M, int N>
INLINE void fetch_operands(element *pool, const element *A, const element *B, long long stride) {
#pragma unroll 1
    for (int k = 0; k < WIDTH; k += SLICE) {
        fetch_left<M, PITCH>(pool + k, A + k, stride);
        fetch_right<N>(pool + M * PITCH + k * N, B + k * stride, stride);
        commit_copies();
    }
}

// C <- C plus A times B of the operands that are being copied. A and B have been read when the function returns.
template <int M, int N> INLINE void multiply_fetched(Tile<M, N> &tile, const element *pool) {
#pragma unroll 1
    for (int slice = 0; slice < WIDTH / SLICE; ++slice) {
        if (slice == 0) wait_for_copies<WIDTH / SLICE - 1>();
        if (slice == 1) wait_for_copies<0>();  // these copies overlapped with the first slice
        if (slice < 2) __syncthreads();
        tile.template accumulate<PITCH>(pool + SLICE * slice, pool + M * PITCH + SLICE * slice * N);
    }
}
