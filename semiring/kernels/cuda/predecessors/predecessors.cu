// Predecessors of a closure: the method of semiring/algorithms/predecessors.py, which states and proves it.
//
// D (n, n) is the closed matrix, `before` the one that was closed; their rows are adjacent elements at strides d_rows
// and b_rows. An edge is direct where the closure left its entry alone. The direct edges into every vertex are a list;
// those into the 32 vertices of a slice are interleaved, so that 32 threads, a vertex each, read them side by side: edge
// c into vertex j stands at 32 (edges of the longest lists of all slices before) + 32 c + j % 32.
//
// count_edges, lay_out and fill_edges make the lists, sort_edges puts the best edges first: of a vertex's edges on best
// paths half are the best one. last_edges gives a block of threads a row, which it keeps in shared memory
// (ROW_IN_SHARED), because every edge reads the distance of its tail. repair_trees recomputes the remaining rows, and rows
// that do not add up, by Dijkstra's algorithm. Where there are many direct edges, bounds identifies the useless ones.
//
// H200, float32 min-plus, complete graphs, n = 8192: 2.7 ms for last_edges and 0.7 for all others beside 40 for the
// closure, of weights from 0 to 1 and of multiples of 1/2; 2.8 and 16.8 for last_edges with lists one behind the other,
// in the order of their tails. Of weights from 0.3 to 1, where half the edges are direct, 18 (875 without bounds). In
// max-min 27: the rounds that attach ties.
//
// EXACT: no operation rounds. RELATIVE: errors count in units of the distance. tolerance: (relative, absolute) of
// tight, of loose, of a whole path. NONE: "no predecessor".
#include "semiring.cuh"

#define UNDECIDED (-2)    // the predecessor is not found yet
#define DOUBT (1 << 30)   // added to a vertex whose edge meets the distance within the loose tolerance only
#define FRESH (1 << 29)   // added to a vertex found in this round: nothing is attached to it before the next
#define TIGHT 0
#define LOOSE 2
#define PATH 4
#define SLICE 32

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

INLINE bool is_better(element x, element y) { return ne(plus(y, x), y); }

// Whether an edge cannot be the last edge of a path at distance d, even within the tolerance: the best path to its tail,
// followed by the edge, has the distance s, which is worse.
INLINE bool is_beyond(element s, element d, const double *tolerance) {
    return eq(plus(d, s), d) && !meets(s, d, tolerance, LOOSE);
}

// best (n): the best distance of all from another vertex to vertex j. worst (n): the worst that no edge explains.
// A block of 32 × 16 threads takes a slice.
extern "C" __global__ void __launch_bounds__(512)
    bounds(const element *D, long long d_rows, const element *before, long long b_rows, int n, const double *tolerance,
           element *best, element *worst) {
    __shared__ element bests[16][SLICE], worsts[16][SLICE];
    const int lane = threadIdx.x % SLICE, part = threadIdx.x / SLICE, j = blockIdx.x * SLICE + lane;
    element low = ZERO, high = ONE;
    for (int i = part; j < n && i < n; i += 16) {
        const element d = D[i * d_rows + j], w = before[i * b_rows + j];
        if (i == j || eq(d, ZERO)) continue;
        low = plus(low, d);
        if (is_better(high, d) && !is_direct(w, d, tolerance)) high = d;
    }
    bests[part][lane] = low, worsts[part][lane] = high;
    __syncthreads();
    if (part > 0 || j >= n) return;
    for (int other = 1; other < 16; ++other) {
        low = plus(low, bests[other][lane]);
        if (is_better(high, worsts[other][lane])) high = worsts[other][lane];
    }
    best[j] = low, worst[j] = high;
}

// Whether w = before[i, j] is direct; with bounds, also whether a path to be explained may end in it.
INLINE bool is_listed(element w, element d, int i, int j, const element *best, const element *worst,
                      const double *tolerance) {
    if (i == j || !is_direct(w, d, tolerance)) return false;
    return best == nullptr || !is_beyond(times(best[i], w), worst[j], tolerance);
}

// counts (gridDim.y, n): the listed edges into vertex j from the tails of each piece of `rows` rows. best, worst: null,
// or those of bounds.
extern "C" __global__ void __launch_bounds__(256)
    count_edges(const element *D, long long d_rows, const element *before, long long b_rows, int n, int rows,
                const double *tolerance, const element *best, const element *worst, int *counts, int *improves) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows, end = min_(n, first + rows);
    if (j >= n) return;
    int count = 0;
    bool better = false;
#pragma unroll 4
    for (int i = first; i < end; ++i) {
        const element w = before[i * b_rows + j], d = D[i * d_rows + j];
        if (is_listed(w, d, i, j, best, worst, tolerance)) {
            ++count;
            better |= is_better(w, ONE);
        }
    }
    counts[(long long)blockIdx.y * n + j] = count;
    if (better) *improves = 1;
}

// counts (pieces, n): in, how many edges; out, how many of the pieces above. degrees (n): of all. widths: the longest
// list of each slice. A multiple of 32 threads.
extern "C" __global__ void __launch_bounds__(256) lay_out(int n, int pieces, int *counts, int *degrees, int *widths) {
    __shared__ int degree[256];
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int piece = 0; j < n && piece < pieces; ++piece) {
        int *count = counts + (long long)piece * n + j;
        const int here = *count;
        *count = sum;
        sum += here;
    }
    degree[threadIdx.x] = sum;
    __syncthreads();
    if (j >= n) return;
    degrees[j] = sum;
    if (j % SLICE) return;
    for (int lane = 1; lane < SLICE; ++lane) sum = max_(sum, degree[threadIdx.x + lane]);
    widths[j / SLICE] = sum;
}

// Where the list of vertex j begins: ends is the running sum of the widths.
INLINE long long first_edge(const long long *ends, int j) {
    const int slice = j / SLICE;
    return (slice ? ends[slice - 1] : 0) * SLICE + j % SLICE;
}

// starts (gridDim.y, n): what lay_out made of the counts. sources, weights: the lists.
extern "C" __global__ void __launch_bounds__(256)
    fill_edges(const element *D, long long d_rows, const element *before, long long b_rows, int n, int rows,
               const double *tolerance, const element *best, const element *worst, const int *starts,
               const long long *ends, int *sources, element *weights) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows, end = min_(n, first + rows);
    if (j >= n) return;
    long long at = first_edge(ends, j) + (long long)starts[(long long)blockIdx.y * n + j] * SLICE;
#pragma unroll 4
    for (int i = first; i < end; ++i) {
        const element w = before[i * b_rows + j], d = D[i * d_rows + j];
        if (is_listed(w, d, i, j, best, worst, tolerance)) {
            sources[at] = i, weights[at] = w;
            at += SLICE;
        }
    }
}

// The lists of a slice in the order of their weights, the best first and equal ones as they came, where no list is
// longer than `longest`: in shared memory, (longest, 32) weights and then as many sources. A multiple of 32 threads.
extern "C" __global__ void __launch_bounds__(1024)
    sort_edges(int n, int longest, const int *degrees, const long long *ends, int *sources, element *weights) {
    DYNAMIC_SHARED(pool);
    element *kept = (element *)pool;
    int *tails = (int *)(kept + longest * SLICE);
    const int lane = threadIdx.x % SLICE, j = blockIdx.x * SLICE + lane, step = blockDim.x / SLICE;
    const int width = (int)(ends[blockIdx.x] - (blockIdx.x ? ends[blockIdx.x - 1] : 0));
    if (width > longest) return;
    const int degree = j < n ? degrees[j] : 0;
    const long long first = first_edge(ends, j);
    for (int c = threadIdx.x / SLICE; c < degree; c += step) {
        kept[c * SLICE + lane] = weights[first + c * SLICE];
        tails[c * SLICE + lane] = sources[first + c * SLICE];
    }
    __syncthreads();
    for (int c = threadIdx.x / SLICE; c < degree; c += step) {
        const element w = kept[c * SLICE + lane];
        int rank = 0;
        for (int other = 0; other < degree; ++other) {
            const element v = kept[other * SLICE + lane];
            rank += is_better(v, w) || (other < c && eq(v, w));
        }
        weights[first + rank * SLICE] = w;
        sources[first + rank * SLICE] = tails[c * SLICE + lane];
    }
}

// The list of one vertex. Where is_sorted, no edge is better than those before it.
struct List {
    const int *sources;
    const element *weights;
    int degree;
    bool is_sorted;
};

INLINE List list_of(int j, const int *degrees, const long long *ends, int longest, const int *sources,
                    const element *weights) {
    const int slice = j / SLICE;
    const long long before = slice ? ends[slice - 1] : 0, at = before * SLICE + j % SLICE;
    return {sources + at, weights + at, degrees[j], ends[slice] - before <= longest};
}

// The last edge of a path to a vertex at distance d, from a vertex that is strictly nearer: the first that is exact, or
// the best. `nearest` is the best distance in the row.
INLINE int best_edge(const element *row, element d, element nearest, List edges, const double *tolerance) {
    element best = ZERO;
    int found = UNDECIDED;
    for (int c = 0; c < edges.degree; ++c) {
        const int p = edges.sources[c * SLICE];
        const element w = edges.weights[c * SLICE], x = row[p], s = times(x, w);
        if (eq(s, d) && is_better(x, d)) return p;
        if (edges.is_sorted && is_beyond(times(nearest, w), d, tolerance)) break;
        if (is_better(s, best) && is_better(x, d)) best = s, found = p;
    }
    if (found < 0 || !meets(best, d, tolerance, LOOSE)) return UNDECIDED;
    return meets(best, d, tolerance, TIGHT) ? found : found + DOUBT;
}

// The first tight edge from a vertex that was decided in an earlier round, and is no worse where no edge improves.
INLINE int tied_edge(const element *row, const int *found, int root, element d, element nearest, bool monotone,
                     List edges, const double *tolerance) {
    for (int c = 0; c < edges.degree; ++c) {
        const int p = edges.sources[c * SLICE], v = found[p];
        const element w = edges.weights[c * SLICE], x = row[p];
        const bool is_decided = p == root || (v >= 0 && !(v & FRESH));
        if (is_decided && (!monotone || eq(plus(x, d), x)) && meets(times(x, w), d, tolerance, TIGHT)) return p;
        if (monotone && edges.is_sorted && is_beyond(times(nearest, w), d, tolerance)) break;
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

// The best of the row's entries beside that of vertex i, for all threads.
INLINE element nearest_of(const element *row, int n, int i) {
    __shared__ element bests[1024];
    element best = ZERO;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        if (j != i) best = plus(best, row[j]);
    }
    bests[threadIdx.x] = best;
    __syncthreads();
    for (int count = blockDim.x; count > 1;) {
        const int half = (count + 1) / 2, other = threadIdx.x + half;
        if (other < count) bests[threadIdx.x] = plus(bests[threadIdx.x], bests[other]);
        __syncthreads();
        count = half;
    }
    return bests[0];
}

// pred (n, n): a tree for every row, but for the rows that are flagged (n). longest: as in sort_edges.
extern "C" __global__ void __launch_bounds__(1024)
    last_edges(const element *D, long long d_rows, const element *before, long long b_rows, int n, const int *degrees,
               const long long *ends, int longest, const int *sources, const element *weights,
               const double *tolerance, const int *improves, int *pred, unsigned char *flagged) {
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
    const element nearest = nearest_of(row, n, i);
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const element d = row[j], w = edges[j];
        int v = UNDECIDED;
        if (j == i || eq(d, ZERO)) {
            v = NONE;
        } else if (is_direct(w, d, tolerance)) {
            v = i;
        } else if (monotone) {
            v = best_edge(row, d, nearest, list_of(j, degrees, ends, longest, sources, weights), tolerance);
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
            const List list = list_of(j, degrees, ends, longest, sources, weights);
            const int v = tied_edge(row, found, i, row[j], nearest, monotone, list, tolerance);
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
// becomes 1 where a path misses its distance by more than rounding may. Threads: a power of two.
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
