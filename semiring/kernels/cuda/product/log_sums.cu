// c = log sum_k exp(a + b) of the entries that products of float64 leave open: a tile of C, 128 rows by 64 columns, to a
// block, which returns at once where no entry of the sums S is NaN, the mark of such an entry. T is float or double.
//
// The first pass over k finds the greatest a + b, `top`, the second adds up exp(a + b - top). In float32 an exponential
// is x 2^m, whole m, |log x| <= log(2)/2, made once when a tile is read, so that a pair costs an addition of integers,
// the maximum that keeps numbers normal, an addition to the exponent and a multiply-add. Sums of 16 terms are added in
// float64. Entries above 2^23, whose exponents would not be exact, and float64 take an exponential for each pair instead.
// Where a single path exists the result is its a + b, to the bit: what is within rounding of `top` is `top`.
typedef long long Long;

constexpr int ROWS = 128, COLUMNS = 64, DEPTH = 16, TALL = 8, WIDE = 4, THREADS = 256;
constexpr float LOG2_E = 1.44269504f, LN2_HIGH = 0.693147182f, LN2_LOW = -1.90465421e-9f, EXACT = 8388608.0f;
constexpr double LN2 = 0.69314718055994530942;
constexpr int NOWHERE = -(1 << 29), FAINT = -125;

template <typename X> __device__ __forceinline__ X infinity() {
    return X(__int_as_float(0x7f800000));
}

// The mantissa and the exponent of e^x.
__device__ __forceinline__ float split(float x, int &exponent) {
    if (x == -infinity<float>()) {
        exponent = NOWHERE;
        return 1.0f;
    }
    const float n = rintf(x * LOG2_E), r = fmaf(-n, LN2_LOW, fmaf(-n, LN2_HIGH, x));
    exponent = int(n);
    return expf(r);
}

__device__ __forceinline__ float power(float d) { return exp2f(d * LOG2_E); }
__device__ __forceinline__ double power(double d) { return exp(d); }

// The greater one; infinity less infinity is no path.
__device__ __forceinline__ float greater(float candidate, float top) { return fmaxf(candidate, top); }
__device__ __forceinline__ double greater(double candidate, double top) { return candidate > top ? candidate : top; }

struct Operand {
    const T *start;
    Long row, column;  // strides in elements
};

// A tile of (count, depth) elements along k, -infinity beyond the ends: to[k][line].
template <int COUNT>
__device__ __forceinline__ bool read(T (*to)[COUNT + 4], Operand X, Long line, Long lines, Long k, Long inner, bool along) {
    bool odd = false;
#pragma unroll
    for (int e = 0; e < COUNT * DEPTH / THREADS; ++e) {
        const int place = e * THREADS + threadIdx.x;
        const int i = along ? place / DEPTH : place % COUNT, s = along ? place % DEPTH : place / COUNT;
        T x = -infinity<T>();
        if (line + i < lines && k + s < inner) x = X.start[(line + i) * X.row + (k + s) * X.column];
        odd = odd || x > T(EXACT) || (x < -T(EXACT) && x != -infinity<T>());
        to[s][i] = x;
    }
    return odd;
}

// Whether a thread of the block says so.
__device__ __forceinline__ bool any_of(bool mine) {
    __shared__ int word;
    __syncthreads();
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    if (mine) word = 1;
    __syncthreads();
    return word != 0;
}

extern "C" __global__ void __launch_bounds__(256)
    log_sums(double *S, Long s_row, const T *A, Long a_row, Long a_column, const T *B, Long b_row, Long b_column, T *C,
             Long c_row, Long c_column, Long m, Long n, Long inner, int reads, int unit) {
    __shared__ T left[DEPTH][ROWS + 4], right[DEPTH][COLUMNS + 4];
    __shared__ int left_exponents[DEPTH][ROWS + 4], right_exponents[DEPTH][COLUMNS + 4];
    const Long top_row = Long(blockIdx.y) * ROWS, first_column = Long(blockIdx.x) * COLUMNS;
    const int down = threadIdx.x / 16 * TALL, across = threadIdx.x % 16 * WIDE;
    unsigned open = 0;
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            const Long row = top_row + down + i, column = first_column + across + j;
            if (row < m && column < n && S[row * s_row + column] != S[row * s_row + column]) open |= 1u << (i * WIDE + j);
        }
    if (!any_of(open != 0)) return;
    const Operand of_a = {A, a_row, a_column}, of_b = {B, b_column, b_row};  // both by lines along k
    const bool a_along = a_column == 1, b_along = b_row == 1;

    T top[TALL][WIDE];
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) top[i][j] = -infinity<T>();
    bool odd = false;
    for (Long k = 0; k < inner; k += DEPTH) {
        __syncthreads();
        odd = read<ROWS>(left, of_a, top_row, m, k, inner, a_along) || odd;
        odd = read<COLUMNS>(right, of_b, first_column, n, k, inner, b_along) || odd;
        __syncthreads();
#pragma unroll 4
        for (int s = 0; s < DEPTH; ++s)
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) {
                    top[i][j] = greater(left[s][down + i] + right[s][across + j], top[i][j]);
                }
    }
    odd = any_of(odd) || sizeof(T) == 8;

    double sum[TALL][WIDE];
    int greatest[TALL][WIDE];
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            sum[i][j] = 0;
            const bool finite = top[i][j] > -infinity<T>() && top[i][j] < infinity<T>();
            greatest[i][j] = finite && !odd ? int(rintf(float(top[i][j]) * LOG2_E)) : 0;
            // The registers of `top` are needed: it waits in the place of the mark.
            if (open >> (i * WIDE + j) & 1)
                S[(top_row + down + i) * s_row + first_column + across + j] = double(top[i][j]);
        }
    if (odd) {
        for (Long k = 0; k < inner; k += DEPTH) {
            __syncthreads();
            read<ROWS>(left, of_a, top_row, m, k, inner, a_along);
            read<COLUMNS>(right, of_b, first_column, n, k, inner, b_along);
            __syncthreads();
            T part[TALL][WIDE] = {};
#pragma unroll 1
            for (int s = 0; s < DEPTH; ++s)
#pragma unroll
                for (int i = 0; i < TALL; ++i)
#pragma unroll
                    for (int j = 0; j < WIDE; ++j)
                        part[i][j] += power((left[s][down + i] + right[s][across + j]) - top[i][j]);
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) sum[i][j] += double(part[i][j]);
        }
    } else {
        for (Long k = 0; k < inner; k += DEPTH) {
            __syncthreads();
            read<ROWS>(left, of_a, top_row, m, k, inner, a_along);
            read<COLUMNS>(right, of_b, first_column, n, k, inner, b_along);
#pragma unroll
            for (int e = 0; e < ROWS * DEPTH / THREADS; ++e) {  // each what it has read itself
                const int place = e * THREADS + threadIdx.x;
                const int i = a_along ? place / DEPTH : place % ROWS, s = a_along ? place % DEPTH : place / ROWS;
                const bool none = left[s][i] == -infinity<T>();
                const float x = split(float(left[s][i]), left_exponents[s][i]);
                left[s][i] = none ? T(0) : T(x);
            }
#pragma unroll
            for (int e = 0; e < COLUMNS * DEPTH / THREADS; ++e) {
                const int place = e * THREADS + threadIdx.x;
                const int i = b_along ? place / DEPTH : place % COLUMNS, s = b_along ? place % DEPTH : place / COLUMNS;
                right[s][i] = T(split(float(right[s][i]), right_exponents[s][i]));
            }
            __syncthreads();
            float part[TALL][WIDE] = {};
#pragma unroll 2
            for (int s = 0; s < DEPTH; ++s)
#pragma unroll
                for (int i = 0; i < TALL; ++i)
#pragma unroll
                    for (int j = 0; j < WIDE; ++j) {
                        const int exponent = left_exponents[s][down + i] + right_exponents[s][across + j] - greatest[i][j];
                        // `unit` is 2^23, unseen by the compiler: a multiply-add of integers takes the other pipe
                        const int bits = (exponent > FAINT ? exponent : FAINT) * unit + __float_as_int(float(right[s][across + j]));
                        part[i][j] = fmaf(float(left[s][down + i]), __int_as_float(bits), part[i][j]);
                    }
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) sum[i][j] += double(part[i][j]);
        }
    }

#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            if (!(open >> (i * WIDE + j) & 1)) continue;
            const Long row = top_row + down + i, column = first_column + across + j;
            const double best = S[row * s_row + column];
            double value = best;
            if (best > -infinity<double>() && best < infinity<double>()) {
                value = log(sum[i][j]) + (odd ? best : greatest[i][j] * LN2);
                if (!odd && fabs(value - best) <= 0x1.cp-22 * fmax(1.0, fabs(best))) value = best;
            }
            T &c = C[row * c_row + column * c_column];
            if (reads && double(c) > -infinity<double>()) {
                const double high = fmax(value, double(c)), low = fmin(value, double(c));
                value = low == high ? high + LN2 : high < infinity<double>() ? high + log1p(exp(low - high)) : high;
            }
            c = T(value);
        }
}
