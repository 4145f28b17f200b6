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

// What a thread reads of a tile of COUNT lines by DEPTH steps along k, and where it puts it: to[step][line].
template <int COUNT> struct Share {
    const T *from;
    Long jump, ahead;  // elements to the next one of the thread, and from one tile to the next
    int line, step, lines_apart, steps_apart;

    __device__ __forceinline__ Share(Operand X, Long first, bool along) {
        line = along ? threadIdx.x / DEPTH : threadIdx.x % COUNT, step = along ? threadIdx.x % DEPTH : threadIdx.x / COUNT;
        lines_apart = along ? THREADS / DEPTH : 0, steps_apart = along ? 0 : THREADS / COUNT;
        from = X.start + (first + line) * X.row + step * X.column;
        jump = lines_apart * X.row + steps_apart * X.column, ahead = DEPTH * X.column;
    }
    // The tile, -infinity beyond ``lines`` and ``steps``, and whether an exponent in it is not exact.
    __device__ __forceinline__ bool read(T (*to)[COUNT + 4], const T *tile, Long lines, Long steps) const {
        bool odd = false;
#pragma unroll
        for (int e = 0; e < COUNT * DEPTH / THREADS; ++e) {
            const int i = line + e * lines_apart, s = step + e * steps_apart;
            T x = -infinity<T>();
            if (i < lines && s < steps) x = tile[e * jump];
            odd = odd || x > T(EXACT) || (x < -T(EXACT) && x != -infinity<T>());
            to[s][i] = x;
        }
        return odd;
    }
    // The same as mantissas, ``none`` for -infinity, and exponents.
    __device__ __forceinline__ void read_split(T (*to)[COUNT + 4], int (*exponents)[COUNT + 4], const T *tile, Long lines,
                                               Long steps, float none) const {
#pragma unroll
        for (int e = 0; e < COUNT * DEPTH / THREADS; ++e) {
            const int i = line + e * lines_apart, s = step + e * steps_apart;
            float x = -infinity<float>();
            if (i < lines && s < steps) x = float(tile[e * jump]);
            int exponent;
            const float y = split(x, exponent);
            to[s][i] = T(exponent == NOWHERE ? none : y), exponents[s][i] = exponent;
        }
    }
};

template <typename X, int N> __device__ __forceinline__ void fetch(X (&to)[N], const X *from) {
    constexpr int LANES = 16 / sizeof(X);
    struct alignas(16) Pack {
        X lanes[LANES];
    };
#pragma unroll
    for (int p = 0; p < N / LANES; ++p) {
        const Pack pack = ((const Pack *)from)[p];
#pragma unroll
        for (int l = 0; l < LANES; ++l) to[p * LANES + l] = pack.lanes[l];
    }
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
    __shared__ __align__(16) T left[DEPTH][ROWS + 4];
    __shared__ __align__(16) T right[DEPTH][COLUMNS + 4];
    __shared__ __align__(16) int left_exponents[DEPTH][ROWS + 4];
    __shared__ __align__(16) int right_exponents[DEPTH][COLUMNS + 4];
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
    // Both by lines along k.
    const Share<ROWS> of_a({A, a_row, a_column}, top_row, a_column == 1);
    const Share<COLUMNS> of_b({B, b_column, b_row}, first_column, b_row == 1);
    const Long rows = m - top_row, columns = n - first_column;
    const T *a_tile = of_a.from, *b_tile = of_b.from;

    T top[TALL][WIDE];
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) top[i][j] = -infinity<T>();
    bool odd = false;
    for (Long k = 0; k < inner; k += DEPTH, a_tile += of_a.ahead, b_tile += of_b.ahead) {
        __syncthreads();
        odd = of_a.read(left, a_tile, rows, inner - k) || odd;
        odd = of_b.read(right, b_tile, columns, inner - k) || odd;
        __syncthreads();
#pragma unroll 4
        for (int s = 0; s < DEPTH; ++s) {
            T a[TALL], b[WIDE];
            fetch(a, &left[s][down]), fetch(b, &right[s][across]);
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) top[i][j] = greater(a[i] + b[j], top[i][j]);
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
    a_tile = of_a.from, b_tile = of_b.from;
    for (Long k = 0; k < inner; k += DEPTH, a_tile += of_a.ahead, b_tile += of_b.ahead) {
        __syncthreads();
        if (odd) {
            of_a.read(left, a_tile, rows, inner - k), of_b.read(right, b_tile, columns, inner - k);
        } else {
            of_a.read_split(left, left_exponents, a_tile, rows, inner - k, 0.0f);
            of_b.read_split(right, right_exponents, b_tile, columns, inner - k, 1.0f);
        }
        __syncthreads();
        T part[TALL][WIDE] = {};
        if (odd) {
#pragma unroll 1
            for (int s = 0; s < DEPTH; ++s) {
                T a[TALL], b[WIDE];
                fetch(a, &left[s][down]), fetch(b, &right[s][across]);
#pragma unroll
                for (int i = 0; i < TALL; ++i)
#pragma unroll
                    for (int j = 0; j < WIDE; ++j) part[i][j] += power((a[i] + b[j]) - top[i][j]);
            }
        } else {
#pragma unroll 2
            for (int s = 0; s < DEPTH; ++s) {
                T x[TALL], y[WIDE];
                int p[TALL], q[WIDE];
                fetch(x, &left[s][down]), fetch(y, &right[s][across]);
                fetch(p, &left_exponents[s][down]), fetch(q, &right_exponents[s][across]);
#pragma unroll
                for (int i = 0; i < TALL; ++i)
#pragma unroll
                    for (int j = 0; j < WIDE; ++j) {
                        const int exponent = p[i] + q[j] - greatest[i][j];
                        // `unit` is 2^23, unseen by the compiler: a multiply-add of integers takes the other pipe
                        const int bits = (exponent > FAINT ? exponent : FAINT) * unit + __float_as_int(float(y[j]));
                        part[i][j] += x[i] * T(__int_as_float(bits));
                    }
            }
        }
#pragma unroll
        for (int i = 0; i < TALL; ++i)
#pragma unroll
            for (int j = 0; j < WIDE; ++j) sum[i][j] += double(part[i][j]);
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
