// Sums Σ x · y · exp(alpha + beta + gamma) over the entries of sparse matrices, for gradients in log_plus. number: float or
// double. Terms are in it, and sums in double, in one order; a few terms are added in ``number`` before. index_t: the type
// of rows and columns. LANES: the threads of a team. VECTOR: the adjacent columns of a thread, which it loads together.
// X_STEP, Y_STEP: 0 for factors X and Y that are one number each, else 1. An index outside of a matrix is no address: its
// term, or its sum, is 0.
//
// FOLDED: X and Y hold x · exp(alpha) and y · exp(beta), and alpha and beta are not read. If one of these products leaves
// the range in which products of two are exact but for rounding, fold_exponents sets *is_far, and the kernels with FOLDED
// do nothing. Those without it do nothing otherwise, unless is_far is null.
#define INLINE __device__ __forceinline__
#define THREADS 256
#define AHEAD 4  // the entries whose terms a thread loads before it adds them
#define FULL 0xffffffffu

struct __align__(VECTOR * sizeof(number)) Pack {
    number x[VECTOR];
};

INLINE float power_of_e(float x) { return expf(x); }
INLINE double power_of_e(double x) { return exp(x); }

// The term is 0 where the exponent is -∞ or nearly so, whatever the factor is.
INLINE number term(number factor, number exponent) {
    return exponent < (number)-1e30 ? (number)0 : factor * power_of_e(exponent);
}

INLINE Pack read_pack(const number *numbers) { return *(const Pack *)numbers; }

INLINE Pack repeat(number factor) {
    Pack result;
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) result.x[v] = factor;
    return result;
}

#define READ_X(place) (X_STEP ? read_pack(X + (place)) : repeat(X[0]))
#define READ_Y(place) (Y_STEP ? read_pack(Y + (place)) : repeat(Y[0]))

#define IS_SKIPPED(is_far) ((is_far) && (*(is_far) != 0) == FOLDED)

// Return a sum of terms, with the factor exp(gamma) that folded terms lack. Half of an exponent does not overflow.
INLINE number finish(double sum, number gamma) {
    if (!FOLDED) return (number)sum;
    const double root = exp(0.5 * (double)gamma);
    return gamma < (number)-1e30 ? (number)0 : (number)(sum * root * root);
}

// ``folded`` ← factors · exp(exponents), (count,), of factors with the step 0 or 1.
extern "C" __global__ void __launch_bounds__(THREADS)
fold_exponents(long long count, const number *factors, const number *exponents, number *folded, int step, unsigned *is_far) {
    const number most = sizeof(number) == 4 ? (number)1e18 : (number)1e150, least = 1 / most;
    const long long threads = (long long)gridDim.x * blockDim.x;
    int found = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const number factor = factors[step ? i : 0], exponent = exponents[i], result = term(factor, exponent);
        const number size = result < 0 ? -result : result;
        folded[i] = result;
        if (factor != 0 && exponent >= (number)-1e30 && (size < least || size > most)) found = 1;
    }
    if (__syncthreads_or(found) && threadIdx.x == 0) atomicOr(is_far, 1u);
}

// Add the terms of COUNT entries from e on to the sums.
template <int COUNT>
INLINE void add_group(double *sums, const Pack &own, long long inner, long long n, const index_t *columns, const number *X,
                      const number *alpha, const number *Y, const number *beta, long long e) {
    bool is_inside[COUNT];
    number x[COUNT], a[COUNT];
    Pack y[COUNT], b[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; ++u) {
        const index_t r = columns[e + u];
        is_inside[u] = r >= 0 && r < inner;
        x[u] = X[X_STEP ? e + u : 0], a[u] = FOLDED ? 0 : alpha[e + u];
        const long long first = is_inside[u] ? r * n : 0;
        y[u] = READ_Y(first);
        if (!FOLDED) b[u] = read_pack(beta + first);
    }
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
        number sum = 0;
#pragma unroll
        for (int u = 0; u < COUNT; ++u) {
            const number factor = x[u] * y[u].x[v];
            sum += !is_inside[u] ? (number)0 : FOLDED ? factor : term(factor, a[u] + b[u].x[v] + own.x[v]);
        }
        sums[v] += (double)sum;
    }
}

// Of a stack, blockIdx.z is the number of the matrix. R (m, n) ← Σ X[p, r] · Y[r, q] · exp(…) for a sparse X of sorted
// rows, and dense Y (inner, n), inner ≥ 1, and R. The teams of a block share a row of more than LONG entries.
// ``y_stride``: the elements from one matrix Y to the next one.
extern "C" __global__ void __launch_bounds__(THREADS)
add_scaled_rows(long long m, long long inner, long long n, const long long *starts, const index_t *columns, const number *X,
                const number *alpha, const number *Y, const number *beta, const number *gamma, number *R,
                long long y_stride, long long gamma_stride, const unsigned *is_far) {
    __shared__ double partial[THREADS * VECTOR];
    if (IS_SKIPPED(is_far)) return;
    Y += blockIdx.z * y_stride * Y_STEP, beta += blockIdx.z * y_stride;
    gamma += blockIdx.z * gamma_stride, R += blockIdx.z * (m * n);
    const int teams = blockDim.x / LANES, team = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long first_row = (long long)blockIdx.x * teams, row = first_row + team;
    const long long start = row < m ? starts[row] : 0, end = row < m ? starts[row + 1] : 0;
    const bool is_long = end - start > LONG;
    const long long strip = (long long)LANES * VECTOR;
    for (long long left = blockIdx.y * strip; left < n; left += gridDim.y * strip) {
        const long long q = left + lane * VECTOR;
        const number *own_Y = Y + q * Y_STEP, *own_beta = beta + q;
        double sums[VECTOR];
        Pack result;
        if (row < m && q < n && !is_long) {
            const Pack own = read_pack(gamma + row * n + q);
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) sums[v] = 0.0;
            long long e = start;
            for (; e + AHEAD <= end; e += AHEAD) {
                add_group<AHEAD>(sums, own, inner, n, columns, X, alpha, own_Y, own_beta, e);
            }
            for (; e < end; ++e) add_group<1>(sums, own, inner, n, columns, X, alpha, own_Y, own_beta, e);
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) result.x[v] = finish(sums[v], own.x[v]);
            *(Pack *)(R + row * n + q) = result;
        }
        if (!__syncthreads_or(is_long)) continue;
        for (int t = 0; t < teams && first_row + t < m; ++t) {
            const long long p = first_row + t, first = starts[p], last = starts[p + 1];
            if (last - first <= LONG) continue;
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) sums[v] = 0.0;
            Pack own;
            if (q < n) {
                own = read_pack(gamma + p * n + q);
                for (long long e = first + team; e < last; e += teams) {
                    add_group<1>(sums, own, inner, n, columns, X, alpha, own_Y, own_beta, e);
                }
            }
            __syncthreads();
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) partial[threadIdx.x * VECTOR + v] = sums[v];
            __syncthreads();
            if (team || q >= n) continue;
            for (int other = 1; other < teams; ++other) {
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) sums[v] += partial[(other * LANES + lane) * VECTOR + v];
            }
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) result.x[v] = finish(sums[v], own.x[v]);
            *(Pack *)(R + p * n + q) = result;
        }
        __syncthreads();
    }
}

// Return a number of another lane, ``distance`` away.
INLINE double exchange(double x, int distance) { return __shfl_sync(FULL, x, (threadIdx.x & 31) ^ distance); }

// R[e] ← Σ X[p, r] · Y[q, r] · exp(…) at the places (p, q) of entries, for dense X (m, inner) and Y (n, inner), m and n
// ≥ 1. A team adds the terms of AHEAD entries. If they are in one row, it reads that row of X once.
extern "C" __global__ void __launch_bounds__(THREADS)
add_scaled_entries(long long count, long long m, long long inner, long long n, const index_t *rows, const index_t *columns,
                   const number *X, const number *alpha, const number *Y, const number *beta, const number *gamma,
                   number *R, long long x_stride, long long y_stride, long long gamma_stride,
                   const unsigned *is_far) {
    if (IS_SKIPPED(is_far)) return;
    X += blockIdx.z * x_stride * X_STEP, alpha += blockIdx.z * x_stride;
    Y += blockIdx.z * y_stride * Y_STEP, beta += blockIdx.z * y_stride;
    gamma += blockIdx.z * gamma_stride, R += blockIdx.z * count;
    const int lane = threadIdx.x % LANES;
    const long long e = ((long long)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES) * AHEAD;
    long long x[AHEAD], y[AHEAD];
    bool is_inside[AHEAD];
    number own[AHEAD];
    double sums[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
        const index_t p = e + u < count ? rows[e + u] : -1, q = e + u < count ? columns[e + u] : -1;
        is_inside[u] = p >= 0 && p < m && q >= 0 && q < n;
        x[u] = is_inside[u] ? p * inner : 0, y[u] = is_inside[u] ? q * inner : 0;
        own[u] = is_inside[u] ? gamma[e + u] : 0, sums[u] = 0.0;
    }
    for (long long r = lane * VECTOR; r < inner; r += LANES * VECTOR) {
        Pack b[AHEAD], right[AHEAD], a, left;
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            right[u] = READ_Y(y[u] + r);
            if (!FOLDED) b[u] = read_pack(beta + y[u] + r);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            if (u == 0 || x[u] != x[u - 1]) {
                left = READ_X(x[u] + r);
                if (!FOLDED) a = read_pack(alpha + x[u] + r);
            }
            number part = 0;
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const number factor = left.x[v] * right[u].x[v];
                part += FOLDED ? factor : term(factor, a.x[v] + b[u].x[v] + own[u]);
            }
            sums[u] += (double)part;
        }
    }
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) sums[u] = is_inside[u] ? sums[u] : 0.0;
#if LANES >= AHEAD  // each quarter of the team adds the sums of one entry
    const bool is_upper = lane & LANES / 2, is_odd = lane & LANES / 4;
    double first = is_upper ? sums[2] : sums[0], second = is_upper ? sums[3] : sums[1];
    first += exchange(is_upper ? sums[0] : sums[2], LANES / 2), second += exchange(is_upper ? sums[1] : sums[3], LANES / 2);
    double sum = is_odd ? second : first;
    sum += exchange(is_odd ? first : second, LANES / 4);
#pragma unroll
    for (int distance = LANES / 8; distance; distance /= 2) sum += exchange(sum, distance);
    const long long own_entry = e + lane / (LANES / 4);
    if (own_entry < count && lane % (LANES / 4) == 0) R[own_entry] = finish(sum, gamma[own_entry]);
#else
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
        for (int distance = LANES / 2; distance; distance /= 2) sums[u] += exchange(sums[u], distance);
        if (e + u < count && lane == 0) R[e + u] = finish(sums[u], gamma[e + u]);
    }
#endif
}
