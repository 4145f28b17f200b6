// Sums Σ x · y · exp(alpha + beta + gamma) over the entries of sparse matrices, for gradients in log_plus. number: float or
// double. Sums are in double, in one order. index_t: the type of rows and columns. LANES: the threads of a team. An index
// outside of a matrix is no address: its term, or its sum, is 0.
#define INLINE __device__ __forceinline__
#define THREADS 256
#define FULL 0xffffffffu

INLINE float power_of_e(float x) { return expf(x); }
INLINE double power_of_e(double x) { return exp(x); }

// The term is 0 where an exponent is -∞ or nearly so, whatever x and y are.
INLINE double term(number x, number y, number alpha, number beta, number gamma) {
    const number exponent = alpha + beta + gamma;
    return exponent < (number)-1e30 ? 0.0 : (double)(x * y) * (double)power_of_e(exponent);
}

// Of a stack, blockIdx.z is the number of the matrix. R (m, n) ← Σ X[p, r] · Y[r, q] · exp(…) for a sparse X of sorted
// rows, whose entry e is X[order[e]], and dense Y (inner, n) and R. The teams of a block share a row of more than LONG
// entries. ``y_stride``: the elements from one matrix Y to the next one.
extern "C" __global__ void __launch_bounds__(THREADS)
add_scaled_rows(long long m, long long inner, long long n, const long long *starts, const long long *order,
                const index_t *columns, const number *X, const number *alpha, const number *Y, const number *beta,
                const number *gamma, number *R, long long y_stride, long long gamma_stride, int x_step, int y_step) {
    __shared__ double partial[THREADS];
    Y += blockIdx.z * y_stride * y_step, beta += blockIdx.z * y_stride;
    gamma += blockIdx.z * gamma_stride, R += blockIdx.z * (m * n);
    const int teams = blockDim.x / LANES, team = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long first_row = (long long)blockIdx.x * teams;
    for (long long left = (long long)blockIdx.y * LANES; left < n; left += (long long)gridDim.y * LANES) {
        const long long q = left + lane;
        bool is_long = false;
        const long long row = first_row + team;
        if (row < m) {
            const long long start = starts[row], end = starts[row + 1];
            is_long = end - start > LONG;
            if (q < n && !is_long) {
                const number own = gamma[row * n + q];
                double sum = 0.0;
#pragma unroll 4
                for (long long e = start; e < end; ++e) {
                    const long long place = order[e], r = columns[place];
                    if (r < 0 || r >= inner) continue;
                    sum += term(X[place * x_step], Y[(r * n + q) * y_step], alpha[place], beta[r * n + q], own);
                }
                R[row * n + q] = (number)sum;
            }
        }
        if (!__syncthreads_or(is_long)) continue;
        for (int t = 0; t < teams && first_row + t < m; ++t) {
            const long long p = first_row + t, start = starts[p], end = starts[p + 1];
            if (end - start <= LONG) continue;
            double sum = 0.0;
            if (q < n) {
                const number own = gamma[p * n + q];
                for (long long e = start + team; e < end; e += teams) {
                    const long long place = order[e], r = columns[place];
                    if (r < 0 || r >= inner) continue;
                    sum += term(X[place * x_step], Y[(r * n + q) * y_step], alpha[place], beta[r * n + q], own);
                }
            }
            __syncthreads();
            partial[threadIdx.x] = sum;
            __syncthreads();
            if (team || q >= n) continue;
            for (int other = 1; other < teams; ++other) sum += partial[other * LANES + lane];
            R[p * n + q] = (number)sum;
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
#pragma unroll 4
            for (long long r = lane; r < inner; r += LANES) {
                sum += term(X[(x + r) * x_step], Y[(y + r) * y_step], alpha[x + r], beta[y + r], own);
            }
        }
    }
    for (int distance = LANES / 2; distance; distance /= 2) sum += __shfl_sync(FULL, sum, (threadIdx.x & 31) ^ distance);
    if (e < count && lane == 0) R[e] = (number)sum;
}
