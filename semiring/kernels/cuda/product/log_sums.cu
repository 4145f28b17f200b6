// c = log sum_k exp(a + b), with one exponential per pair, in tiles of C. T is float or double.
//
// `log_sums` computes the entries that products in float64 leave open, which are the NaN among the sums S. A block
// returns at once if its tile has no NaN. (For float, log_splits.cu computes what it can before.) `log_tiles` computes
// all entries of products that are too small for cuBLAS, and `log_lines` those of a vector and a matrix. If C is too
// small for the GPU, several blocks share k, and `log_parts` combines their sums.
//
// Steps of k are processed 16 at a time. First the greatest a + b is found. Then the exponentials relative to `top`,
// the greatest a + b so far, are added up. Sums of 16 terms are added in float64. If there is a single path, the result
// is exactly its a + b.
typedef long long Long;

#define INLINE __device__ __forceinline__

constexpr int DEPTH = 16, THREADS = 256;
constexpr int TALL = sizeof(T) == 4 ? 8 : 4, WIDE = 4, ROWS = 16 * TALL, COLUMNS = 64;  // the tile of log_sums
constexpr double LN2 = 0.69314718055994530942;

template <typename X> INLINE X infinity() {
    return X(__int_as_float(0x7f800000));
}

// The greater value. A NaN, such as infinity less infinity, counts as no path.
INLINE float greater(float candidate, float top) { return fmaxf(candidate, top); }
INLINE double greater(double candidate, double top) { return candidate > top ? candidate : top; }

// exp(d) for d at most 0. The result is 0 if d is NaN, because such a path does not exist.
INLINE float power(float d) {
    const float e = greater(d * 1.44269504f, -infinity<float>());
#ifdef ON_HOST
    return exp2f(e);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(e));
    return y;
#endif
}
INLINE double power(double d) { return exp(greater(d, -infinity<double>())); }

struct Operand {
    const T *start;
    Long row, column;  // strides in elements
};

// The part of a tile of COUNT lines by DEPTH steps along k that one thread reads. The thread stores it in
// target[step][line].
template <int COUNT> struct Share {
    const T *source;
    Long element_step, tile_step;  // elements to the thread's next element, and from one tile to the next
    int line, step, lines_apart, steps_apart;

    INLINE Share(Operand X, Long first, bool is_along_k) {
        line = is_along_k ? threadIdx.x / DEPTH : threadIdx.x % COUNT,
        step = is_along_k ? threadIdx.x % DEPTH : threadIdx.x / COUNT;
        lines_apart = is_along_k ? THREADS / DEPTH : 0, steps_apart = is_along_k ? 0 : THREADS / COUNT;
        source = X.start + (first + line) * X.row + step * X.column;
        element_step = lines_apart * X.row + steps_apart * X.column, tile_step = DEPTH * X.column;
    }
    // Read the tile, with -infinity beyond ``lines`` and ``steps``.
    INLINE void read(T (*target)[COUNT + 4], const T *tile, Long lines, Long steps) const {
#pragma unroll
        for (int e = 0; e < (COUNT * DEPTH + THREADS - 1) / THREADS; ++e) {
            const int i = line + e * lines_apart, s = step + e * steps_apart;
            T x = -infinity<T>();
            if (i < lines && s < steps) x = tile[e * element_step];
            if (i < COUNT && s < DEPTH) target[s][i] = x;
        }
    }
};

template <typename X, int N> INLINE void fetch(X (&target)[N], const X *source) {
    constexpr int LANES = N * sizeof(X) < 16 ? N : 16 / sizeof(X);
    struct alignas(LANES * sizeof(X)) Pack {
        X lanes[LANES];
    };
#pragma unroll
    for (int p = 0; p < N / LANES; ++p) {
        const Pack pack = ((const Pack *)source)[p];
#pragma unroll
        for (int l = 0; l < LANES; ++l) target[p * LANES + l] = pack.lanes[l];
    }
}

// Return whether the condition holds for a thread of the block.
INLINE bool any_of(bool condition) {
    __shared__ int word;
    __syncthreads();
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    if (condition) word = 1;
    __syncthreads();
    return word != 0;
}

// c <- value, or the log of exp(c) + exp(value) if the kernel ``reads`` c.
INLINE void store_result(T &c, double value, int reads) {
    if (reads && double(c) > -infinity<double>()) {
        const double high = fmax(value, double(c)), low = fmin(value, double(c));
        value = low == high ? high + LN2 : high < infinity<double>() ? high + log1p(exp(low - high)) : high;
    }
    c = T(value);
}

// The initial `top`, before any a + b. It is finite, so that a difference with it is a number. A sum of 0 distinguishes
// it from an a + b of the same value.
template <typename X> INLINE X initial_top() {
    return sizeof(X) == 4 ? X(-3.40282346638528859812e38) : X(-1.79769313486231570815e308);
}

INLINE double log_of(double top, double sum) {
    return top == infinity<double>() ? top : log(sum) + top;
}

// Compute a tile of C of `ROWS` by `COLUMNS`: the greatest a + b of each entry, and the sum of exp(a + b - top). A
// thread has `TALL` by `WIDE` entries, from (down, across) on. Threads that are not ``is_active`` only help to read.
template <int ROWS, int COLUMNS, int TALL, int WIDE>
INLINE void add_up(Operand A, Operand B, Long first_row, Long first_column, Long m, Long n, Long inner, int down,
                   int across, bool is_active, T (&top)[TALL][WIDE], double (&sum)[TALL][WIDE]) {
    __shared__ __align__(16) T left[DEPTH][ROWS + 4];
    __shared__ __align__(16) T right[DEPTH][COLUMNS + 4];
    // Both operands as lines along k.
    const Share<ROWS> of_a(A, first_row, A.column == 1);
    const Share<COLUMNS> of_b({B.start, B.column, B.row}, first_column, B.row == 1);
    const T *a_tile = of_a.source, *b_tile = of_b.source;
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) top[i][j] = initial_top<T>(), sum[i][j] = 0;
    for (Long k = 0; k < inner; k += DEPTH, a_tile += of_a.tile_step, b_tile += of_b.tile_step) {
        __syncthreads();
        of_a.read(left, a_tile, m - first_row, inner - k), of_b.read(right, b_tile, n - first_column, inner - k);
        __syncthreads();
        if (!is_active) continue;
        T best[TALL][WIDE];
#pragma unroll
        for (int i = 0; i < TALL; ++i)
#pragma unroll
            for (int j = 0; j < WIDE; ++j) best[i][j] = top[i][j];
#pragma unroll 4
        for (int s = 0; s < DEPTH; ++s) {
            T a[TALL], b[WIDE];
            fetch(a, &left[s][down]), fetch(b, &right[s][across]);
#pragma unroll
            for (int i = 0; i < TALL; ++i)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) best[i][j] = greater(a[i] + b[j], best[i][j]);
        }
        T part[TALL][WIDE];
#pragma unroll
        for (int i = 0; i < TALL; ++i)
#pragma unroll
            for (int j = 0; j < WIDE; ++j) {
                if (best[i][j] > top[i][j]) sum[i][j] *= double(power(top[i][j] - best[i][j])), top[i][j] = best[i][j];
                part[i][j] = 0;
            }
#pragma unroll(sizeof(T) == 4 ? 4 : 1)
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
}

extern "C" __global__ void __launch_bounds__(THREADS)
    log_sums(const int *has_open, double *S, Long s_row, const T *A, Long a_row, Long a_column, const T *B, Long b_row,
             Long b_column, T *C, Long c_row, Long c_column, Long m, Long n, Long inner, int reads) {
    if (!*has_open) return;
    const Long top_row = Long(blockIdx.y) * ROWS, first_column = Long(blockIdx.x) * COLUMNS;
    const int down = threadIdx.x / (COLUMNS / WIDE) * TALL, across = threadIdx.x % (COLUMNS / WIDE) * WIDE;
    unsigned open_mask = 0;
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            const Long row = top_row + down + i, column = first_column + across + j;
            if (row < m && column < n && S[row * s_row + column] != S[row * s_row + column])
                open_mask |= 1u << (i * WIDE + j);
        }
    if (!any_of(open_mask != 0)) return;
    T top[TALL][WIDE];
    double sum[TALL][WIDE];
    add_up<ROWS, COLUMNS>({A, a_row, a_column}, {B, b_row, b_column}, top_row, first_column, m, n, inner, down, across,
                          open_mask != 0, top, sum);
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            if (!(open_mask >> (i * WIDE + j) & 1)) continue;
            const Long row = top_row + down + i, column = first_column + across + j;
            store_result(C[row * c_row + column * c_column], log_of(top[i][j], sum[i][j]), reads);
        }
}

// The matrices of a stack, one after the other.
struct Stack {
    T *start;
    Long matrix, row, column;  // strides in elements

    INLINE Operand operand(Long number, Long rows, Long columns) const {
        return {start + number * matrix + rows * row + columns * column, row, column};
    }
};

// Compute all entries of a stack of products. If blocks share k, store the sums and tops of each part instead, matrix
// by matrix and part by part.
template <int ROWS, int COLUMNS, int TALL, int WIDE>
INLINE void each_tile_of(Stack A, Stack B, Stack C, Long m, Long n, Long inner, Long part, int reads, double *sums,
                         T *tops) {
    const Long tiles = (m + ROWS - 1) / ROWS, tiles_across = (n + COLUMNS - 1) / COLUMNS,
               parts = inner > part ? (inner + part - 1) / part : 1;
    const Long first_row = blockIdx.x / tiles_across % tiles * ROWS, first_column = blockIdx.x % tiles_across * COLUMNS;
    const Long piece = blockIdx.x / (tiles_across * tiles), matrix = piece / parts, k = (piece - matrix * parts) * part;
    const int down = threadIdx.x / (COLUMNS / WIDE) * TALL, across = threadIdx.x % (COLUMNS / WIDE) * WIDE;
    T top[TALL][WIDE];
    double sum[TALL][WIDE];
    add_up<ROWS, COLUMNS>(A.operand(matrix, 0, k), B.operand(matrix, k, 0), first_row, first_column, m, n,
                          inner - k < part ? inner - k : part, down, across,
                          first_row + down < m && first_column + across < n, top, sum);
#pragma unroll
    for (int i = 0; i < TALL; ++i)
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            const Long row = first_row + down + i, column = first_column + across + j;
            if (row >= m || column >= n) continue;
            if (parts > 1) {
                const Long slot = (piece * m + row) * n + column;
                sums[slot] = sum[i][j], tops[slot] = top[i][j];
            } else {
                store_result(C.start[matrix * C.matrix + row * C.row + column * C.column], log_of(top[i][j], sum[i][j]),
                             reads);
            }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    log_tiles(T *A, Long a_matrix, Long a_row, Long a_column, T *B, Long b_matrix, Long b_row, Long b_column, T *C,
              Long c_matrix, Long c_row, Long c_column, Long m, Long n, Long inner, Long part, int reads, double *sums,
              T *tops) {
    each_tile_of<32, 32, 2, 2>({A, a_matrix, a_row, a_column}, {B, b_matrix, b_row, b_column},
                               {C, c_matrix, c_row, c_column}, m, n, inner, part, reads, sums, tops);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    log_lines(T *A, Long a_matrix, Long a_row, Long a_column, T *B, Long b_matrix, Long b_row, Long b_column, T *C,
              Long c_matrix, Long c_row, Long c_column, Long m, Long n, Long inner, Long part, int reads, double *sums,
              T *tops) {
    each_tile_of<1, 256, 1, 1>({A, a_matrix, a_row, a_column}, {B, b_matrix, b_row, b_column},
                               {C, c_matrix, c_row, c_column}, m, n, inner, part, reads, sums, tops);
}

// Combine the sums of `parts` parts of k, in their order, with one thread per entry of C.
extern "C" __global__ void __launch_bounds__(THREADS)
    log_parts(T *C, Long c_matrix, Long c_row, Long c_column, Long m, Long n, Long count, Long parts, int reads,
              const double *sums, const T *tops) {
    const Long entry = Long(blockIdx.x) * THREADS + threadIdx.x, size = m * n;
    if (entry >= count * size) return;
    const Long matrix = entry / size, place = entry % size, first = matrix * parts * size + place;
    double top = initial_top<T>(), sum = 0;
    for (Long p = 0; p < parts; ++p) top = greater(double(tops[first + p * size]), top);
    for (Long p = 0; p < parts; ++p) sum += sums[first + p * size] * power(double(tops[first + p * size]) - top);
    store_result(C[matrix * c_matrix + place / n * c_row + place % n * c_column], log_of(top, sum), reads);
}
