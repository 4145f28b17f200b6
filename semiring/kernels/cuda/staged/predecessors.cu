// Predecessors of a closure: the method of semiring/algorithms/predecessors.py, which states and proves it.
//
// D (n, n) is the closed matrix, `before` the one that was closed; their rows are adjacent elements at strides d_rows
// and b_rows. An edge is direct where the closure left its entry alone. count_edges and fill_edges make the list of the
// direct edges into every vertex, in the order of their tails; last_edges gives a block of threads a row, which it
// keeps in shared memory (ROW_IN_SHARED), for every edge looks up the distance of its tail; repair_trees does by
// Dijkstra's algorithm what is left over or does not add up.
//
// EXACT: no operation rounds. RELATIVE: errors count in units of the distance. tolerance: (relative, absolute) of
// tight, of loose, of a whole path.
#include "semiring.cuh"

#define NONE (-9999)      // SciPy's "no predecessor"
#define UNDECIDED (-2)    // while the work lasts
#define DOUBT (1 << 30)   // added to a vertex whose edge meets the distance within the loose tolerance only
#define FRESH (1 << 29)   // added to a vertex found in this round: nothing is attached to it before the next
#define TIGHT 0
#define LOOSE 2
#define PATH 4

#ifdef EXACT
typedef element wide;
INLINE bool meets(element x, element y, const double *, int) { return eq(x, y); }
INLINE bool adds_up(element total, element d, const double *, int, int) { return eq(total, d); }
INLINE double deviation(element x, element y) { return eq(x, y) ? 0.0 : 1.0 / 0.0; }
INLINE element widened(element x) { return x; }
#define times_wide times
#define WIDE_ONE ONE
#else
typedef double wide;
#ifdef HALF
INLINE double widened(half_t x) { return widen(x); }
#else
INLINE double widened(element x) { return x; }
#endif
INLINE bool meets(element x, element y, const double *tolerance, int which) {
    const double a = widened(x), b = widened(y);
    return a == b || fabs(a - b) < tolerance[which] * fabs(b) + tolerance[which + 1];
}
INLINE bool adds_up(double total, element d, const double *tolerance, int which, int times_) {
    const double b = widened(d);
    return total == b || fabs(total - b) < times_ * (tolerance[which] * fabs(b) + tolerance[which + 1]);
}
INLINE double deviation(element x, element y) {
    const double a = widened(x), b = widened(y);
    if (a == b) return 0.0;
#ifdef RELATIVE
    const double missed = fabs(a - b) / fmax(fabs(b), 2.2250738585072014e-308);
#else
    const double missed = fabs(a - b);
#endif
    return missed == missed ? missed : 1.0 / 0.0;
}
#define WIDE_ONE widened(ONE)
#endif

INLINE bool is_direct(element w, element d, const double *tolerance) {
    return ne(w, ZERO) && meets(w, d, tolerance, TIGHT);  // 0̄ can meet a tiny distance, and is no edge all the same
}

// counts (n, gridDim.y): the direct edges into vertex j from the tails of each piece of `rows` rows.
extern "C" __global__ void __launch_bounds__(256)
    count_edges(const element *D, long long d_rows, const element *before, long long b_rows, int n, int rows,
                const double *tolerance, int *counts, int *improves) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows;
    if (j >= n) return;
    int count = 0;
    bool better = false;
    for (int i = first; i < n && i < first + rows; ++i) {
        const element w = before[i * b_rows + j];
        if (i != j && is_direct(w, D[i * d_rows + j], tolerance)) {
            ++count;
            better |= ne(plus(ONE, w), ONE);
        }
    }
    counts[(long long)j * gridDim.y + blockIdx.y] = count;
    if (better) *improves = 1;
}

// ends (n, gridDim.y): the running sum of the counts. sources, weights: the edges, those into one vertex adjacent.
extern "C" __global__ void __launch_bounds__(256)
    fill_edges(const element *D, long long d_rows, const element *before, long long b_rows, int n, int rows,
               const double *tolerance, const long long *ends, int *sources, element *weights) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows;
    if (j >= n) return;
    const long long piece = (long long)j * gridDim.y + blockIdx.y;
    long long at = piece ? ends[piece - 1] : 0;
    if (at == ends[piece]) return;
    for (int i = first; i < n && i < first + rows; ++i) {
        const element w = before[i * b_rows + j];
        if (i != j && is_direct(w, D[i * d_rows + j], tolerance)) {
            sources[at] = i;
            weights[at++] = w;
        }
    }
}

// The last edge of a path to a vertex at distance d, from a vertex that is strictly nearer; the best of the edges first
// to last, or the first that is exact.
INLINE int best_edge(const element *row, element d, long long from, long long to, const int *sources,
                     const element *weights, const double *tolerance) {
    element best = ZERO;
    int found = UNDECIDED;
    for (long long c = from; c < to; ++c) {
        const int p = sources[c];
        const element x = row[p], s = times(x, weights[c]);
        if (eq(plus(x, d), d)) continue;
        if (eq(s, d)) return p;
        if (ne(plus(best, s), best)) {
            best = s;
            found = p;
        }
    }
    if (found < 0 || !meets(best, d, tolerance, LOOSE)) return UNDECIDED;
    return meets(best, d, tolerance, TIGHT) ? found : found + DOUBT;
}

// The first tight edge from a vertex that was decided in an earlier round, and is no worse where no edge improves.
INLINE int tied_edge(const element *row, const int *found, int root, element d, bool monotone, long long from,
                     long long to, const int *sources, const element *weights, const double *tolerance) {
    for (long long c = from; c < to; ++c) {
        const int p = sources[c], v = found[p];
        if (p != root && (v < 0 || (v & FRESH))) continue;
        const element x = row[p];
        if (monotone && ne(plus(x, d), x)) continue;
        if (meets(times(x, weights[c]), d, tolerance, TIGHT)) return p;
    }
    return UNDECIDED;
}

// Whether the path that ends in j adds up to its distance; at most so many times `which` as it has edges.
INLINE bool path_adds_up(const element *before, long long b_rows, int n, const int *found, int root, int j, element d,
                         const double *tolerance, int which) {
    wide total = WIDE_ONE;
    int hops = 0;
    for (int v = j; v != root; ++hops) {
        int p = found[v];
        if (p < 0 || hops > n) return false;
        p &= ~DOUBT;
        total = times_wide(widened(before[p * b_rows + v]), total);
        v = p;
    }
    return adds_up(total, d, tolerance, which, which == PATH ? 1 : hops);
}

// pred (n, n): a tree for every row, but for the rows that are flagged (n).
extern "C" __global__ void __launch_bounds__(512)
    last_edges(const element *D, long long d_rows, const element *before, long long b_rows, int n,
               const long long *ends, int pieces, const int *sources, const element *weights, const double *tolerance,
               const int *improves, int *pred, unsigned char *flagged) {
    __shared__ int undecided, doubtful, attached, spoilt;
    const int i = blockIdx.x;
    const element *row = D + i * d_rows, *edges = before + i * b_rows;
    int *found = pred + (long long)i * n;
    const bool monotone = !*improves;
#ifdef ROW_IN_SHARED
    DYNAMIC_SHARED(pool);
    for (int j = threadIdx.x; j < n; j += blockDim.x) ((element *)pool)[j] = row[j];
    row = (const element *)pool;
#endif
    if (threadIdx.x == 0) undecided = doubtful = attached = spoilt = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const element d = row[j], w = edges[j];
        int v = UNDECIDED;
        if (j == i || eq(d, ZERO)) {
            v = NONE;
        } else if (is_direct(w, d, tolerance)) {
            v = i;
        } else if (monotone) {
            const long long first = (long long)j * pieces;
            v = best_edge(row, d, first ? ends[first - 1] : 0, ends[first + pieces - 1], sources, weights, tolerance);
        }
        found[j] = v;
        if (v == UNDECIDED) undecided = 1;
        if (v >= DOUBT) doubtful = 1;
    }
    __syncthreads();
    bool open = undecided;
    while (open) {  // a round of the breadth-first search
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            if (found[j] != UNDECIDED) continue;
            const long long first = (long long)j * pieces;
            const int v = tied_edge(row, found, i, row[j], monotone, first ? ends[first - 1] : 0,
                                    ends[first + pieces - 1], sources, weights, tolerance);
            if (v >= 0) found[j] = v | FRESH;
        }
        __syncthreads();
        if (threadIdx.x == 0) undecided = attached = 0;
        __syncthreads();
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            const int v = found[j];
            if (v == UNDECIDED) undecided = 1;
            if (v >= 0 && (v & FRESH)) {
                found[j] = v & ~FRESH;
                attached = 1;
            }
        }
        __syncthreads();
        open = undecided && attached;
        __syncthreads();
    }
    if (doubtful) {
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            const bool doubt = found[j] >= DOUBT;
            if (doubt && !path_adds_up(before, b_rows, n, found, i, j, row[j], tolerance, TIGHT)) spoilt = 1;
        }
        __syncthreads();
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            if (found[j] >= DOUBT) found[j] -= DOUBT;
        }
    }
    if (threadIdx.x == 0) flagged[i] = undecided || spoilt;
}

// The flagged rows of pred anew: Dijkstra's algorithm under the lengths |D[i, p] w(p, j) - D[i, j]|, ties broken by the
// number of edges. lengths (gridDim.x, n) and hops (gridDim.x, n) are scratch; a closed vertex has hops below 0. failed
// becomes 1 where a path misses its distance by more than rounding may.
extern "C" __global__ void __launch_bounds__(512)
    repair_trees(const element *D, long long d_rows, const element *before, long long b_rows, int n,
                 const double *tolerance, int *pred, const unsigned char *flagged, double *lengths, int *hops,
                 int *failed) {
    __shared__ double least[512];
    __shared__ int fewest[512], where[512];
    const int t = threadIdx.x, threads = blockDim.x;
    double *length = lengths + (long long)blockIdx.x * n;
    int *count = hops + (long long)blockIdx.x * n;
    const double infinite = 1.0 / 0.0;
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        if (!flagged[i]) continue;
        const element *row = D + i * d_rows;
        int *found = pred + (long long)i * n;
        for (int j = t; j < n; j += threads) {
            length[j] = j == i ? 0.0 : infinite;
            count[j] = j == i ? 0 : n;
            found[j] = NONE;
        }
        for (int step = 0; step < n; ++step) {
            double mine = infinite;
            int edges = 0, at = -1;
            for (int j = t; j < n; j += threads) {
                const int h = count[j];
                if (h >= 0 && (length[j] < mine || (length[j] == mine && length[j] < infinite && h < edges))) {
                    mine = length[j], edges = h, at = j;
                }
            }
            least[t] = mine, fewest[t] = edges, where[t] = at;
            __syncthreads();
            for (int half = threads / 2; half; half /= 2) {
                if (t < half && where[t + half] >= 0) {
                    const double a = least[t], b = least[t + half];
                    const int g = fewest[t], h = fewest[t + half];
                    if (where[t] < 0 || b < a || (b == a && (h < g || (h == g && where[t + half] < where[t])))) {
                        least[t] = b, fewest[t] = h, where[t] = where[t + half];
                    }
                }
                __syncthreads();
            }
            const int p = where[0], h = fewest[0];
            const double so_far = least[0];
            __syncthreads();
            if (p < 0) break;
            if (t == 0) count[p] = -1;
            const element x = p == i ? ONE : row[p];
            for (int j = t; j < n; j += threads) {
                if (j == p || count[j] < 0 || eq(row[j], ZERO)) continue;
                const element w = before[p * b_rows + j];
                if (!is_direct(w, D[p * d_rows + j], tolerance)) continue;
                const double total = so_far + deviation(times(x, w), row[j]);
                if (total < length[j] || (total == length[j] && total < infinite && h + 1 < count[j])) {
                    length[j] = total, count[j] = h + 1, found[j] = p;
                }
            }
            __syncthreads();
        }
        for (int j = t; j < n; j += threads) {
            if (j == i || eq(row[j], ZERO)) continue;
            if (!path_adds_up(before, b_rows, n, found, i, j, row[j], tolerance, PATH)) *failed = 1;
        }
        __syncthreads();
    }
}
