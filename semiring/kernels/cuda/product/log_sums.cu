// c = log sum_k exp(a + b) of the entries that products of float64 leave open, an exponential for each pair: a tile of C,
// 128 rows by 64 columns, to a block, which returns at once where no entry of the sums S is NaN, the mark of such an
// entry. T is float or double; of float, log_splits.cu takes what it can before.
//
// The first pass over k finds the greatest a + b, `top`, the second adds up exp(a + b - top), sums of 16 terms in float64.
// Where a single path exists the result is its a + b, to the bit.
typedef long long Long;

#define INLINE __device__ __forceinline__

constexpr int ROWS = 128, COLUMNS = 64, DEPTH = 16, TALL = 8, WIDE = 4, THREADS = 256;
constexpr double LN2 = 0.69314718055994530942;

template <typename X> INLINE X infinity() {
    return X(__int_as_float(0x7f800000));
}

INLINE float power(float d) { return exp2f(d * 1.44269504f); }
INLINE double power(double d) { return exp(d); }

// The greater one; infinity less infinity is no path.
INLINE float greater(float candidate, float top) { return fmaxf(candidate, top); }
INLINE double greater(double candidate, double top) { return candidate > top ? candidate : top; }

struct Operand {
    const T *start;
    Long row, column;  // strides in elements
};

// What a thread reads of a tile of COUNT lines by DEPTH steps along k, and where it puts it: to[step][line].
template <int COUNT> struct Share {
    const T *from;
    Long jump, ahead;  // elements to the next one of the thread, and from one tile to the next
    int line, step, lines_apart, steps_apart;

    INLINE Share(Operand X, Long first, bool along) {
        line = along ? threadIdx.x / DEPTH : threadIdx.x % COUNT, step = along ? threadIdx.x % DEPTH : threadIdx.x / COUNT;
        lines_apart = along ? THREADS / DEPTH : 0, steps_apart = along ? 0 : THREADS / COUNT;
        from = X.start + (first + line) * X.row + step * X.column;
        jump = lines_apart * X.row + steps_apart * X.column, ahead = DEPTH * X.column;
    }
    // The tile, -infinity beyond ``lines`` and ``steps``.
    INLINE void read(T (*to)[COUNT + 4], const T *tile, Long lines, Long steps) const {
#pragma unroll
        for (int e = 0; e < COUNT * DEPTH / THREADS; ++e) {
            const int i = line + e * lines_apart, s = step + e * steps_apart;
            T x = -infinity<T>();
            if (i < lines && s < steps) x = tile[e * jump];
            to[s][i] = x;
        }
    }
};

template <typename X, int N> INLINE void fetch(X (&to)[N], const X *from) {
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
INLINE bool any_of(bool mine) {
    __shared__ int word;
    __syncthreads();
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    if (mine) word = 1;
    __syncthreads();
    return word != 0;
}

// c <- value, or c + value where it ``reads`` c.
INLINE void settle(T &c, double value, int reads) {
    if (reads && double(c) > -infinity<double>()) {
        const double high = fmax(value, double(c)), low = fmin(value, double(c));
        value = low == high ? high + LN2 : high < infinity<double>() ? high + log1p(exp(low - high)) : high;
    }
    c = T(value);
}

extern "C" __global__ void __launch_bounds__(256)
    log_sums(const int *open, double *S, Long s_row, const T *A, Long a_row, Long a_column, const T *B, Long b_row, Long b_column,
             T *C, Long c_row, Long c_column, Long m, Long n, Long inner, int reads) {
    if (!*open) return;
    __shared__ __align__(16) T left[DEPTH][ROWS + 4];
    __shared__ __align__(16) T right[DEPTH][COLUMNS + 4];
    const Long top_row = Long(blockIdx.y) * ROWS, first_column = Long(blockIdx.x) * COLUMNS;
    const int down = threadIdx.x / 16 * TALL, across = threadIdx.x % 16 * WIDE;
    unsigned mine = 0;
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            const Long row = top_row + down + i, column = first_column + across + j;
            if (row < m && column < n && S[row * s_row + column] != S[row * s_row + column]) mine |= 1u << (i * WIDE + j);
        }
    if (!any_of(mine != 0)) return;
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
    for (Long k = 0; k < inner; k += DEPTH, a_tile += of_a.ahead, b_tile += of_b.ahead) {
        __syncthreads();
        of_a.read(left, a_tile, rows, inner - k), of_b.read(right, b_tile, columns, inner - k);
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

    double sum[TALL][WIDE];
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            sum[i][j] = 0;
        }
    a_tile = of_a.from, b_tile = of_b.from;
    for (Long k = 0; k < inner; k += DEPTH, a_tile += of_a.ahead, b_tile += of_b.ahead) {
        __syncthreads();
        of_a.read(left, a_tile, rows, inner - k), of_b.read(right, b_tile, columns, inner - k);
        __syncthreads();
        T part[TALL][WIDE] = {};
#pragma unroll 1
        for (int s = 0; s < DEPTH; ++s) {
            T a[TALL], b[WIDE];
            fetch(a, &left[s][down]), fetch(b, &right[s][across]);
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) part[i][j] += power((a[i] + b[j]) - top[i][j]);
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
            if (!(mine >> (i * WIDE + j) & 1)) continue;
            const Long row = top_row + down + i, column = first_column + across + j;
            const double best = double(top[i][j]);
            const bool finite = best > -infinity<double>() && best < infinity<double>();
            settle(C[row * c_row + column * c_column], finite ? log(sum[i][j]) + best : best, reads);
        }
}
