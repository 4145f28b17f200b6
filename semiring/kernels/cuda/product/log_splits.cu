// The sums of log_sums.cu for float32, with separate exponents and mantissas, where no entry of a tile exceeds `EXACT`.
//
// An exponential is x 2^p with |log x| <= log(2)/2. `split` computes it once per entry. It stores together what is read
// together: for `DEPTH` steps of k, the entries of a tile's lines, then their x, then their p; then the next steps.
//
// The first pass over k finds `top`, the greatest a + b. The second pass adds up x y 2^(p + q - g), where g is the
// exponent of `top`. It takes four instructions: an addition with the maximum that keeps numbers normal, a subtraction,
// a multiply-add into the exponent of y, and a multiply-add. (Exponents as floats, for other pipes, were slower. So
// were loops that are unrolled further.)
//
// Sums of `DEPTH` terms are added in float64, in shared memory. While a tile is processed, the next one is being
// copied.
#include "log_sums.cu"

typedef T element;
#include "copies.cuh"

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

constexpr int BREADTH = 8, TEAM = ROWS / TALL * COLUMNS / BREADTH;
constexpr int TILE_A = DEPTH * ROWS, TILE_B = DEPTH * COLUMNS, STAGE = 2 * (TILE_A + TILE_B);  // words
constexpr int NOWHERE = -(1 << 29), LOWEST = -125;
constexpr float EXACT = 1 << 26;
constexpr double LOG2_E = 1.4426950408889634;
constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;

// Make whole tiles of `tile` lines of X, with ``inner`` steps padded to a multiple of `DEPTH`. There is one block per
// tile and `DEPTH` steps. Mantissas are multiplied by 2^lowest. odd[tile] becomes 1 if an entry of the tile exceeds
// `EXACT` or is NaN.
extern "C" __global__ void __launch_bounds__(256)
    split(const int *has_open, const float *X, Long line_stride, Long step_stride, Long lines, Long inner, int tile,
          int lowest, float *splits, int *odd) {
    if (!*has_open) return;
    float *target = splits + (Long(blockIdx.y) * gridDim.x + blockIdx.x) * 3 * tile * DEPTH;
    for (int e = threadIdx.x; e < tile * DEPTH; e += 256) {
        const Long line = Long(blockIdx.y) * tile + e % tile, k = Long(blockIdx.x) * DEPTH + e / tile;
        const float z = line < lines && k < inner ? X[line * line_stride + k * step_stride] : -infinity<float>();
        float mantissa = 0;
        int exponent = NOWHERE;
        if (z >= -EXACT && z <= EXACT) {
            const double n = rint(z * LOG2_E), r = fma(-n, LN2_LOW, fma(-n, LN2_HIGH, double(z)));
            exponent = int(n), mantissa = __int_as_float(__float_as_int(float(exp(r))) + lowest * (1 << 23));
        } else if (z != -infinity<float>()) {
            odd[blockIdx.y] = 1;
        }
        target[e] = z, target[e + tile * DEPTH] = mantissa, target[e + 2 * tile * DEPTH] = __int_as_float(exponent);
    }
}

template <int WORDS> INLINE void copy(float *target, const float *source) {
#pragma unroll
    for (int w = 0; w < WORDS; w += 4 * TEAM)
        copy_piece<16>(target + w + 4 * threadIdx.x, source + w + 4 * threadIdx.x);
}

// Call ``process`` for each tile of both operands, with entries (FIRST = 0, COUNT = 1) or with mantissas and exponents
// (1, 2).
template <int FIRST, int COUNT, class Process>
INLINE void each_tile(const float *left, const float *right, int tiles, float *stages, Process process) {
    const auto begin = [&](float *stage) {
        copy<COUNT * TILE_A>(stage, left + FIRST * TILE_A),
            copy<COUNT * TILE_B>(stage + 2 * TILE_A, right + FIRST * TILE_B);
        commit_copies();
        left += 3 * TILE_A, right += 3 * TILE_B;
    };
    __syncthreads();
    begin(stages);
    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_copies<0>();
        __syncthreads();  // all threads have arrived, so that no thread still reads the other stage
        if (tile + 1 < tiles) begin(stages + (tile + 1) % 2 * STAGE);
        process(stages + tile % 2 * STAGE);
    }
}

INLINE double exponent_of(double top) {
    return top > -infinity<double>() ? rint(top * LOG2_E) : 0;
}

// `unit` is 2^23, which the compiler must not see as a constant. An integer multiply-add uses another pipe than
// additions and maxima.
extern "C" __global__ void __launch_bounds__(TEAM, 2)
    add_splits(const int *has_open, const int *odd_rows, const int *odd_columns, double *S, Long s_row,
               const float *left, const float *right, int tiles, float *C, Long c_row, Long c_column, Long m, Long n,
               int reads, int unit) {
    if (!*has_open || odd_rows[blockIdx.y] || odd_columns[blockIdx.x]) return;
    DYNAMIC_SHARED(bytes);
    double *sums = (double *)bytes + threadIdx.x;  // with stride TEAM
    float *stages = (float *)(bytes + TALL * BREADTH * TEAM * sizeof(double));
    constexpr int GROUPS = BREADTH / 4;  // groups of four columns
    const int down = threadIdx.x / (COLUMNS / BREADTH) * TALL, across = threadIdx.x % (COLUMNS / BREADTH) * 4;
    const Long top_row = Long(blockIdx.y) * ROWS + down, first_column = Long(blockIdx.x) * COLUMNS + across;
    const auto column_of = [&](int j) { return first_column + j / 4 * (COLUMNS / GROUPS) + j % 4; };
    const auto fetch_row = [&](float(&target)[BREADTH], const float *source) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            float four[4];
            fetch(four, source + g * (COLUMNS / GROUPS) + across);
#pragma unroll
            for (int l = 0; l < 4; ++l) target[4 * g + l] = four[l];
        }
    };
    unsigned long long open_mask = 0;
#pragma unroll 1
    for (int e = 0; e < TALL * BREADTH; ++e) {
        const Long row = top_row + e / BREADTH, column = column_of(e % BREADTH);
        if (row < m && column < n && S[row * s_row + column] != S[row * s_row + column]) open_mask |= 1ull << e;
    }
    if (!any_of(open_mask != 0)) return;
    left += Long(blockIdx.y) * tiles * 3 * TILE_A, right += Long(blockIdx.x) * tiles * 3 * TILE_B;

    float top[TALL][BREADTH];
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < BREADTH; ++j) top[i][j] = -infinity<float>();
    each_tile<0, 1>(left, right, tiles, stages, [&](const float *stage) {
#pragma unroll 4
        for (int s = 0; s < DEPTH; ++s) {
            float a[TALL], b[BREADTH];
            fetch(a, stage + s * ROWS + down), fetch_row(b, stage + 2 * TILE_A + s * COLUMNS);
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < BREADTH; ++j) top[i][j] = fmaxf(a[i] + b[j], top[i][j]);
        }
    });

    int low[TALL][BREADTH];
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < BREADTH; ++j) {
            const int e = i * BREADTH + j;
            low[i][j] = int(exponent_of(top[i][j])) + LOWEST;
            sums[e * TEAM] = 0;
            // `top` is stored in place of the NaN that marks the entry, because its registers are needed.
            if (open_mask >> e & 1) S[(top_row + i) * s_row + column_of(j)] = top[i][j];
        }
    each_tile<1, 2>(left, right, tiles, stages, [&](const float *stage) {
        float part[TALL][BREADTH] = {};
#pragma unroll 4
        for (int s = 0; s < DEPTH; ++s) {
            float x[TALL], p[TALL], y[BREADTH], q[BREADTH];
            fetch(x, stage + s * ROWS + down), fetch(p, stage + TILE_A + s * ROWS + down);
            fetch_row(y, stage + 2 * TILE_A + s * COLUMNS), fetch_row(q, stage + 2 * TILE_A + TILE_B + s * COLUMNS);
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < BREADTH; ++j) {
                    const int exponent = __float_as_int(p[i]) + __float_as_int(q[j]);
                    const int shift = (exponent > low[i][j] ? exponent : low[i][j]) - low[i][j];
                    part[i][j] = fmaf(x[i], __int_as_float(shift * unit + __float_as_int(y[j])), part[i][j]);
                }
        }
#pragma unroll
        for (int i = 0; i < TALL; ++i)
#pragma unroll
            for (int j = 0; j < BREADTH; ++j) sums[(i * BREADTH + j) * TEAM] += double(part[i][j]);
    });

#pragma unroll 1
    for (int e = 0; e < TALL * BREADTH; ++e) {
        if (!(open_mask >> e & 1)) continue;
        const Long row = top_row + e / BREADTH, column = column_of(e % BREADTH);
        const double best = S[row * s_row + column];
        double value = best;
        if (best > -infinity<double>()) {
            value = log(sums[e * TEAM]) + exponent_of(best) * LN2;
            if (fabs(value - best) <= 0x1.1p-22 * fmax(1.0, fabs(best))) value = best;
        }
        store_result(C[row * c_row + column * c_column], value, reads);
    }
}
