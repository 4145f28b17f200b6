// Sums Σ x · y · exp(alpha + beta + gamma) over the entries of sparse matrices, for gradients in log_plus. number: float or
// double. Terms are in it, and sums in double, in one order; a few terms are added in ``number`` before. index_t: the type
// of rows and columns. LANES: the threads of a team. VECTOR: the adjacent columns of a thread, which it loads together. An
// index outside of a matrix is no address: its term, or its sum, is 0.
#define INLINE __device__ __forceinline__
#define THREADS 256
#define AHEAD 4  // the entries of a row whose terms a thread loads before it adds them
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

// Return a pack of factors: those from a place on, or with step 0 the only one, for each column.
INLINE Pack read_factors(const number *factors, long long place, int step) {
    Pack result;
    if (step) return *(const Pack *)(factors + place);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) result.x[v] = factors[0];
    return result;
}

// Add the terms of COUNT entries e, e + step, … to the sums.
template <int COUNT>
INLINE void add_group(double *sums, const Pack &own, long long inner, long long n, const index_t *columns, const number *X,
                      const number *alpha, const number *Y, const number *beta, long long e, int step, int x_step, int y_step) {
    bool is_inside[COUNT];
    number x[COUNT], a[COUNT];
    Pack y[COUNT], b[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; ++u) {
        const long long place = e + u * step, r = columns[place];
        is_inside[u] = r >= 0 && r < inner;
        x[u] = X[place * x_step], a[u] = alpha[place];
        const long long first = is_inside[u] ? r * n : 0;
        y[u] = read_factors(Y, first, y_step), b[u] = *(const Pack *)(beta + first);
    }
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
        number sum = 0;
#pragma unroll
        for (int u = 0; u < COUNT; ++u) {
            sum += is_inside[u] ? term(x[u] * y[u].x[v], a[u] + b[u].x[v] + own.x[v]) : (number)0;
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
                long long y_stride, long long gamma_stride, int x_step, int y_step) {
    __shared__ double partial[THREADS * VECTOR];
    Y += blockIdx.z * y_stride * y_step, beta += blockIdx.z * y_stride;
    gamma += blockIdx.z * gamma_stride, R += blockIdx.z * (m * n);
    const int teams = blockDim.x / LANES, team = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long first_row = (long long)blockIdx.x * teams, row = first_row + team;
    const long long start = row < m ? starts[row] : 0, end = row < m ? starts[row + 1] : 0;
    const bool is_long = end - start > LONG;
    const long long strip = (long long)LANES * VECTOR;
    for (long long left = blockIdx.y * strip; left < n; left += gridDim.y * strip) {
        const long long q = left + lane * VECTOR;
        const number *own_Y = Y + q * y_step, *own_beta = beta + q;
        double sums[VECTOR];
        Pack result;
        if (row < m && q < n && !is_long) {
            const Pack own = *(const Pack *)(gamma + row * n + q);
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) sums[v] = 0.0;
            long long e = start;
            for (; e + AHEAD <= end; e += AHEAD) {
                add_group<AHEAD>(sums, own, inner, n, columns, X, alpha, own_Y, own_beta, e, 1, x_step, y_step);
            }
            for (; e < end; ++e) add_group<1>(sums, own, inner, n, columns, X, alpha, own_Y, own_beta, e, 1, x_step, y_step);
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) result.x[v] = (number)sums[v];
            *(Pack *)(R + row * n + q) = result;
        }
        if (!__syncthreads_or(is_long)) continue;
        for (int t = 0; t < teams && first_row + t < m; ++t) {
            const long long p = first_row + t, first = starts[p], last = starts[p + 1];
            if (last - first <= LONG) continue;
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) sums[v] = 0.0;
            if (q < n) {
                const Pack own = *(const Pack *)(gamma + p * n + q);
                for (long long e = first + team; e < last; e += teams) {
                    add_group<1>(sums, own, inner, n, columns, X, alpha, own_Y, own_beta, e, 1, x_step, y_step);
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
            for (int v = 0; v < VECTOR; ++v) result.x[v] = (number)sums[v];
            *(Pack *)(R + p * n + q) = result;
        }
        __syncthreads();
    }
}

// R[e] ← Σ X[p, r] · Y[q, r] · exp(…) at the places (p, q) of entries, for dense X (m, inner) and Y (n, inner). A team
// adds the terms of one entry.
extern "C" __global__ void __launch_bounds__(THREADS)
add_scaled_entries(long long count, long long m, long long inner, long long n, const index_t *rows, const index_t *columns,
                   const number *X, const number *alpha, const number *Y, const number *beta, const number *gamma,
                   number *R, long long x_stride, long long y_stride, long long gamma_stride, int x_step, int y_step) {
    X += blockIdx.z * x_stride * x_step, alpha += blockIdx.z * x_stride;
    Y += blockIdx.z * y_stride * y_step, beta += blockIdx.z * y_stride;
    gamma += blockIdx.z * gamma_stride, R += blockIdx.z * count;
    const int lane = threadIdx.x % LANES;
    const long long e = (long long)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    double sum = 0.0;
    if (e < count) {
        const long long p = rows[e], q = columns[e];
        if (p >= 0 && p < m && q >= 0 && q < n) {
            const number own = gamma[e];
            const long long x = p * inner, y = q * inner;
#pragma unroll 2
            for (long long r = lane * VECTOR; r < inner; r += LANES * VECTOR) {
                const Pack left = read_factors(X, x + r, x_step), right = read_factors(Y, y + r, y_step);
                const Pack a = *(const Pack *)(alpha + x + r), b = *(const Pack *)(beta + y + r);
                number part = 0;
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) part += term(left.x[v] * right.x[v], a.x[v] + b.x[v] + own);
                sum += (double)part;
            }
        }
    }
    for (int distance = LANES / 2; distance; distance /= 2) sum += __shfl_sync(FULL, sum, (threadIdx.x & 31) ^ distance);
    if (e < count && lane == 0) R[e] = (number)sum;
}
