// Predecessors of a closure. semiring/algorithms/predecessors.py states the method and proves it.
//
// D (n, n) is the closed matrix, and A is the matrix before the closure. Their rows are adjacent elements at strides
// d_rows and a_rows. An edge is direct if the closure left its entry unchanged. The direct edges into each vertex form
// a list. The lists of the 32 vertices of a slice are interleaved, so that 32 threads with one vertex each read
// adjacent elements. Edge c into vertex j has the index 32 (edges of the longest lists of all preceding slices) + 32 c
// + j % 32.
//
// count_edges, lay_out and fill_edges make the lists. sort_edges moves the best edges to the front, because half of a
// vertex's edges on best paths are its best edge. last_edges assigns a thread block to each row. The block keeps the
// row in shared memory (ROW_IN_SHARED), because every edge needs the distance of its tail. repair_trees recomputes the
// undecided rows and the rows that do not add up, by Dijkstra's algorithm. If there are many direct edges, bounds
// identifies the edges that no path needs.
//
// Where A and the whole of D are not on this GPU, collect_edges lists the direct edges of some rows, and last_edges
// searches some rows of D. It then takes all weights from the lists, and the direct edges out of a vertex from heads.
//
// A stack of small matrices has contiguous matrices, one after the other. list_edges makes the sorted lists of each
// matrix, all of the same length, and last_edges and repair_trees process the rows of all matrices. The result of a
// matrix is that of the kernels for one matrix.
//
// H200, float32 min-plus, complete graphs, n = 8192, weights from 0 to 1 and multiples of 1/2: last_edges takes 2.7 ms
// and all other kernels 0.7 ms, beside 40 ms for the closure. With lists one after the other, in the order of their
// tails, last_edges took 2.8 and 16.8 ms, respectively. With weights from 0.3 to 1, where half of the edges are direct,
// it takes 18 ms (875 without bounds). In max-min it takes 27 ms, because of the rounds that attach ties.
//
// EXACT: no operation rounds. RELATIVE: errors are relative to the distance. ``tolerance``: pairs (relative, absolute)
// for TIGHT, LOOSE and PATH, where PATH is for a whole path. NONE: "no predecessor".
#include "semiring.cuh"

#define UNDECIDED (-2)    // no predecessor so far
#define DOUBT (1 << 30)   // added to a vertex whose edge meets the distance only within the loose tolerance
#define FRESH (1 << 29)   // added to a vertex that this round decided; only later rounds attach vertices to it
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
    const double error = fabs(a - b) / fmax(fabs(b), 2.2250738585072014e-308);
#else
    const double error = fabs(a - b);
#endif
    return error == error ? error : 1.0 / 0.0;
}
#define WIDE_ONE widened(ONE)
#endif

INLINE bool is_direct(element w, element d, const double *tolerance) {
    return ne(w, ZERO) && meets(w, d, tolerance, TIGHT);  // 0̄ can meet a tiny distance, but it is not an edge
}

INLINE bool is_better(element x, element y) { return ne(plus(y, x), y); }

// Whether an edge cannot be the last edge of a path at distance d, even within the tolerance. The best path to its
// tail, followed by the edge, has distance s, which is then worse than d.
INLINE bool is_beyond(element s, element d, const double *tolerance) {
    return eq(plus(d, s), d) && !meets(s, d, tolerance, LOOSE);
}

// ``best`` (n): the best distance to vertex j from another vertex. ``worst`` (n): the worst distance to vertex j that
// no direct edge explains. A block of 32 × 16 threads processes one slice.
extern "C" __global__ void __launch_bounds__(512)
    bounds(const element *D, long long d_rows, const element *A, long long a_rows, int n, const double *tolerance,
           element *best, element *worst) {
    __shared__ element bests[16][SLICE], worsts[16][SLICE];
    const int lane = threadIdx.x % SLICE, part = threadIdx.x / SLICE, j = blockIdx.x * SLICE + lane;
    element low = ZERO, high = ONE;
    for (int i = part; j < n && i < n; i += 16) {
        const element d = D[i * d_rows + j], w = A[i * a_rows + j];
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

// Whether w = A[i, j] is direct. With bounds, the edge must also be able to end a path that needs an explanation.
INLINE bool is_listed(element w, element d, int i, int j, const element *best, const element *worst,
                      const double *tolerance) {
    if (i == j || !is_direct(w, d, tolerance)) return false;
    return best == nullptr || !is_beyond(times(best[i], w), worst[j], tolerance);
}

// ``counts`` (gridDim.y, n): the number of listed edges into vertex j from the tails of each piece of `rows` rows.
// ``best``, ``worst``: null, or the results of bounds.
extern "C" __global__ void __launch_bounds__(256)
    count_edges(const element *D, long long d_rows, const element *A, long long a_rows, int n, int rows,
                const double *tolerance, const element *best, const element *worst, int *counts, int *has_gain) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows, end = min_(n, first + rows);
    if (j >= n) return;
    int count = 0;
    bool is_gain = false;
#pragma unroll 4
    for (int i = first; i < end; ++i) {
        const element w = A[i * a_rows + j], d = D[i * d_rows + j];
        if (is_listed(w, d, i, j, best, worst, tolerance)) {
            ++count;
            is_gain |= is_better(w, ONE);
        }
    }
    counts[(long long)blockIdx.y * n + j] = count;
    if (is_gain) *has_gain = 1;
}

// ``counts`` (pieces, n) is overwritten: from the number of edges in a piece to the number of edges in the preceding
// pieces. ``degrees`` (n): the number of edges of all pieces. ``widths``: the longest list of each slice. The block
// size is a multiple of 32.
extern "C" __global__ void __launch_bounds__(256) lay_out(int n, int pieces, int *counts, int *degrees, int *widths) {
    __shared__ int degree[256];
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int piece = 0; j < n && piece < pieces; ++piece) {
        int *count = counts + (long long)piece * n + j;
        const int edges = *count;
        *count = sum;
        sum += edges;
    }
    degree[threadIdx.x] = sum;
    __syncthreads();
    if (j >= n) return;
    degrees[j] = sum;
    if (j % SLICE) return;
    for (int lane = 1; lane < SLICE; ++lane) sum = max_(sum, degree[threadIdx.x + lane]);
    widths[j / SLICE] = sum;
}

// Append the direct edges out of the vertices first_row … first_row + gridDim.x - 1, in any order, to ``tails``,
// ``heads`` and ``weights``. D and A hold the rows of these vertices. ``found``: the number of edges, which may exceed
// ``limit``, the number that are stored.
extern "C" __global__ void __launch_bounds__(256)
    collect_edges(const element *D, long long d_rows, const element *A, long long a_rows, int n, int first_row,
                  const double *tolerance, int limit, unsigned long long *found, int *tails, int *heads,
                  element *weights, int *has_gain) {
    const int i = first_row + blockIdx.x;
    const element *row = D + blockIdx.x * d_rows, *edges = A + blockIdx.x * a_rows;
#pragma unroll 4
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const element w = edges[j], d = row[j];
        if (j == i || !is_direct(w, d, tolerance)) continue;
        if (is_better(w, ONE)) *has_gain = 1;
        const unsigned long long place = atomicAdd(found, 1ull);
        if (place < limit) tails[place] = i, heads[place] = j, weights[place] = w;
    }
}

// The index of the first edge of vertex j. ``ends`` is the running sum of the widths.
INLINE long long first_edge(const long long *ends, int j) {
    const int slice = j / SLICE;
    return (slice ? ends[slice - 1] : 0) * SLICE + j % SLICE;
}

// ``starts`` (gridDim.y, n): the counts as lay_out left them. ``sources``, ``weights``: the lists.
extern "C" __global__ void __launch_bounds__(256)
    fill_edges(const element *D, long long d_rows, const element *A, long long a_rows, int n, int rows,
               const double *tolerance, const element *best, const element *worst, const int *starts,
               const long long *ends, int *sources, element *weights) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows, end = min_(n, first + rows);
    if (j >= n) return;
    long long index = first_edge(ends, j) + (long long)starts[(long long)blockIdx.y * n + j] * SLICE;
#pragma unroll 4
    for (int i = first; i < end; ++i) {
        const element w = A[i * a_rows + j], d = D[i * d_rows + j];
        if (is_listed(w, d, i, j, best, worst, tolerance)) {
            sources[index] = i, weights[index] = w;
            index += SLICE;
        }
    }
}

// Sort the lists of a slice by their weights, the best first and equal ones in the same order. Slices with a list
// longer than `longest` are skipped. Shared memory holds (longest, 32) weights and as many sources. The block size is a
// multiple of 32.
extern "C" __global__ void __launch_bounds__(1024)
    sort_edges(int n, int longest, const int *degrees, const long long *ends, int *sources, element *weights) {
    DYNAMIC_SHARED(pool);
    element *old_weights = (element *)pool;
    int *old_tails = (int *)(old_weights + longest * SLICE);
    const int lane = threadIdx.x % SLICE, j = blockIdx.x * SLICE + lane, step = blockDim.x / SLICE;
    const int width = (int)(ends[blockIdx.x] - (blockIdx.x ? ends[blockIdx.x - 1] : 0));
    if (width > longest) return;
    const int degree = j < n ? degrees[j] : 0;
    const long long first = first_edge(ends, j);
    for (int c = threadIdx.x / SLICE; c < degree; c += step) {
        old_weights[c * SLICE + lane] = weights[first + c * SLICE];
        old_tails[c * SLICE + lane] = sources[first + c * SLICE];
    }
    __syncthreads();
    for (int c = threadIdx.x / SLICE; c < degree; c += step) {
        const element w = old_weights[c * SLICE + lane];
        int rank = 0;
        for (int other = 0; other < degree; ++other) {
            const element v = old_weights[other * SLICE + lane];
            rank += is_better(v, w) || (other < c && eq(v, w));
        }
        weights[first + rank * SLICE] = w;
        sources[first + rank * SLICE] = old_tails[c * SLICE + lane];
    }
}

// Make the lists of a stack, those of one matrix by one block, with a thread for each vertex. A list has room for n edges,
// and is sorted as by sort_edges. Bounds apply to a matrix whose longest lists of all slices have more than ``many``
// edges on average. ``degrees`` (matrices, n); ``has_gain`` (matrices), all 0 before.
extern "C" __global__ void __launch_bounds__(128)
    list_edges(const element *D, const element *A, int n, const double *tolerance, int many, int *degrees,
               int *sources, element *weights, int *has_gain) {
    __shared__ element bests[128], worsts[128];
    __shared__ int counts[128];
    __shared__ bool is_long;
    const int j = threadIdx.x, slices = (n + SLICE - 1) / SLICE;
    const long long matrix = (long long)blockIdx.x * n * n;
    const long long first = (long long)(blockIdx.x * slices + j / SLICE) * SLICE * n + j % SLICE;
    D += matrix, A += matrix, sources += first, weights += first;
    const element *best = nullptr, *worst = nullptr;
    for (int round = 0; round < 2; ++round) {
        int count = 0;
        bool is_gain = false;
        for (int i = 0; j < n && i < n; ++i) {
            const element w = A[i * n + j], d = D[i * n + j];
            if (!is_listed(w, d, i, j, best, worst, tolerance)) continue;
            is_gain |= is_better(w, ONE);
            int c = count++;
            for (; c > 0 && is_better(w, weights[(c - 1) * SLICE]); --c) {
                weights[c * SLICE] = weights[(c - 1) * SLICE];
                sources[c * SLICE] = sources[(c - 1) * SLICE];
            }
            weights[c * SLICE] = w, sources[c * SLICE] = i;
        }
        if (j < n) degrees[(long long)blockIdx.x * n + j] = count;
        if (is_gain) has_gain[blockIdx.x] = 1;
        if (round) return;
        counts[j] = count;
        __syncthreads();
        if (j == 0) {
            int sum = 0;
            for (int slice = 0; slice < slices; ++slice) {
                int longest = 0;
                for (int lane = 0; lane < SLICE; ++lane) longest = max_(longest, counts[slice * SLICE + lane]);
                sum += longest;
            }
            is_long = sum > many * slices;
        }
        __syncthreads();
        if (!is_long) return;
        element low = ZERO, high = ONE;
        for (int i = 0; j < n && i < n; ++i) {
            const element d = D[i * n + j], w = A[i * n + j];
            if (i == j || eq(d, ZERO)) continue;
            low = plus(low, d);
            if (is_better(high, d) && !is_direct(w, d, tolerance)) high = d;
        }
        bests[j] = low, worsts[j] = high;
        best = bests, worst = worsts;
        __syncthreads();
    }
}

// The list of one vertex. If is_sorted, no edge is better than an earlier edge of the list.
struct List {
    const int *sources;
    const element *weights;
    int degree;
    bool is_sorted;
};

INLINE List list_of(int j, const int *degrees, const long long *ends, int longest, const int *sources,
                    const element *weights) {
    const int slice = j / SLICE;
    const long long slice_start = slice ? ends[slice - 1] : 0, first = slice_start * SLICE + j % SLICE;
    return {sources + first, weights + first, degrees[j], ends[slice] - slice_start <= longest};
}

// The tail of the last edge of a path to a vertex at distance d. The tail must be strictly nearer. The result is the
// first exact edge, otherwise the best edge. `nearest` is the best distance in the row.
INLINE int best_edge(const element *row, element d, element nearest, List edges, const double *tolerance) {
    element best = ZERO;
    int tail = UNDECIDED;
    for (int c = 0; c < edges.degree; ++c) {
        const int p = edges.sources[c * SLICE];
        const element w = edges.weights[c * SLICE], x = row[p], s = times(x, w);
        if (eq(s, d) && is_better(x, d)) return p;
        if (edges.is_sorted && is_beyond(times(nearest, w), d, tolerance)) break;
        if (is_better(s, best) && is_better(x, d)) best = s, tail = p;
    }
    if (tail < 0 || !meets(best, d, tolerance, LOOSE)) return UNDECIDED;
    return meets(best, d, tolerance, TIGHT) ? tail : tail + DOUBT;
}

// The first tight edge from a vertex that an earlier round decided. If no edge improves on 1̄, the distance of that
// vertex must be no worse.
INLINE int tied_edge(const element *row, const int *pred_row, int root, element d, element nearest, bool monotone,
                     List edges, const double *tolerance) {
    for (int c = 0; c < edges.degree; ++c) {
        const int p = edges.sources[c * SLICE], v = pred_row[p];
        const element w = edges.weights[c * SLICE], x = row[p];
        const bool is_decided = p == root || (v >= 0 && !(v & FRESH));
        if (is_decided && (!monotone || eq(plus(x, d), x)) && meets(times(x, w), d, tolerance, TIGHT)) return p;
        if (monotone && edges.is_sorted && is_beyond(times(nearest, w), d, tolerance)) break;
    }
    return UNDECIDED;
}

// The weight of an edge that is in the list of its head.
INLINE element weight_of(int tail, List edges) {
    for (int c = 0; c < edges.degree; ++c) {
        if (edges.sources[c * SLICE] == tail) return edges.weights[c * SLICE];
    }
    return ZERO;
}

// Whether the path that ends in j adds up to its distance. ``weight(p, v)``: the weight of an edge. The tolerance is
// `which`, multiplied by the number of edges unless `which` is PATH.
template <typename Weight>
INLINE bool path_adds_up(Weight weight, int n, const int *pred_row, int root, int j, element d,
                         const double *tolerance, int which) {
    wide total = WIDE_ONE;
    int hops = 0;
    for (int v = j; v != root; ++hops) {
        int p = pred_row[v];
        if (p < 0 || hops > n) return false;
        p &= ~DOUBT;
        total = times_wide(widened(weight(p, v)), total);
        v = p;
    }
    return adds_up(total, d, tolerance, which, which == PATH ? 1 : hops);
}

// The best of the row's entries except the entry of vertex i. All threads receive it.
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

// ``pred`` (n, n): a tree for every row, except the rows that ``needs_repair`` (n) marks. ``longest``: as in
// sort_edges. gridDim.y: the matrices of a stack.
//
// If A is null, D, pred and needs_repair have gridDim.x rows, those of the vertices from first_row on, and the lists
// are complete. The direct edges out of vertex i then lead to heads[starts[i]] … heads[starts[i + 1] - 1].
extern "C" __global__ void __launch_bounds__(1024)
    last_edges(const element *D, long long d_rows, const element *A, long long a_rows, int n, const int *degrees,
               const long long *ends, int longest, const int *sources, const element *weights,
               const double *tolerance, const int *has_gain, int *pred, unsigned char *needs_repair, int first_row,
               const long long *starts, const int *heads) {
    __shared__ int has_undecided, has_doubtful, has_attached, has_failed;
    const int i = first_row + blockIdx.x;
    if (blockIdx.y) {  // a later matrix of a stack
        const long long places = ends[(n - 1) / SLICE] * SLICE * blockIdx.y;
        D += blockIdx.y * n * d_rows, A += blockIdx.y * n * a_rows, degrees += blockIdx.y * n;
        sources += places, weights += places, pred += (long long)blockIdx.y * n * n;
    }
    const element *row = D + blockIdx.x * d_rows, *edges = A + blockIdx.x * a_rows;
    int *pred_row = pred + (long long)blockIdx.x * n;
    const bool monotone = !has_gain[blockIdx.y];
#ifdef ROW_IN_SHARED
    DYNAMIC_SHARED(pool);
    for (int j = threadIdx.x; j < n; j += blockDim.x) ((element *)pool)[j] = row[j];
    row = (const element *)pool;
#endif
    if (threadIdx.x == 0) has_undecided = has_doubtful = has_attached = has_failed = 0;
    if (A == nullptr) {
        for (int j = threadIdx.x; j < n; j += blockDim.x) pred_row[j] = UNDECIDED;
        __syncthreads();
        for (long long c = starts[i] + threadIdx.x; c < starts[i + 1]; c += blockDim.x) pred_row[heads[c]] = i;
    }
    __syncthreads();
    const element nearest = nearest_of(row, n, i);
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const element d = row[j];
        int v = UNDECIDED;
        if (j == i || eq(d, ZERO)) {
            v = NONE;
        } else if (A == nullptr ? pred_row[j] == i : is_direct(edges[j], d, tolerance)) {
            v = i;
        } else if (monotone) {
            v = best_edge(row, d, nearest, list_of(j, degrees, ends, longest, sources, weights), tolerance);
        }
        pred_row[j] = v;
        if (v == UNDECIDED) has_undecided = 1;
        if (v >= DOUBT) has_doubtful = 1;
    }
    __syncthreads();
    bool needs_round = has_undecided;
    while (needs_round) {  // one round of the breadth-first search
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            if (pred_row[j] != UNDECIDED) continue;
            const List list = list_of(j, degrees, ends, longest, sources, weights);
            const int v = tied_edge(row, pred_row, i, row[j], nearest, monotone, list, tolerance);
            if (v >= 0) pred_row[j] = v | FRESH;
        }
        __syncthreads();
        if (threadIdx.x == 0) has_undecided = has_attached = 0;
        __syncthreads();
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            const int v = pred_row[j];
            if (v == UNDECIDED) has_undecided = 1;
            if (v >= 0 && (v & FRESH)) {
                pred_row[j] = v & ~FRESH;
                has_attached = 1;
            }
        }
        __syncthreads();
        needs_round = has_undecided && has_attached;
        __syncthreads();
    }
    if (has_doubtful) {
        const auto weight = [&](int p, int v) {
            if (A != nullptr) return A[p * a_rows + v];
            return weight_of(p, list_of(v, degrees, ends, longest, sources, weights));
        };
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            const bool doubt = pred_row[j] >= DOUBT;
            if (doubt && !path_adds_up(weight, n, pred_row, i, j, row[j], tolerance, TIGHT)) has_failed = 1;
        }
        __syncthreads();
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            if (pred_row[j] >= DOUBT) pred_row[j] -= DOUBT;
        }
    }
    if (threadIdx.x == 0) needs_repair[blockIdx.y * n + blockIdx.x] = has_undecided || has_failed;
}

// Recompute the marked rows of pred by Dijkstra's algorithm under the lengths |D[i, p] w(p, j) - D[i, j]|. The number
// of edges breaks ties. ``lengths`` and ``hops``, both (gridDim.x, n), are workspace. A closed vertex has a negative
// number of hops. *failure becomes 1 if a path misses its distance by more than rounding can explain. ``rows``: those of
// all matrices of a stack. The block size is a power of two.
extern "C" __global__ void __launch_bounds__(512)
    repair_trees(const element *all_D, long long d_rows, const element *all_A, long long a_rows, int n,
                 const double *tolerance, int *pred, const unsigned char *needs_repair, double *lengths, int *hops,
                 int *failure, int rows) {
    __shared__ double least[512];
    __shared__ int fewest[512], vertices[512];
    const int t = threadIdx.x, threads = blockDim.x;
    double *length = lengths + (long long)blockIdx.x * n;
    int *count = hops + (long long)blockIdx.x * n;
    const double infinite = 1.0 / 0.0;
    for (int number = blockIdx.x; number < rows; number += gridDim.x) {
        if (!needs_repair[number]) continue;
        const int matrix = number / n, i = number % n;
        const element *D = all_D + matrix * n * d_rows, *A = all_A + matrix * n * a_rows, *row = D + i * d_rows;
        int *pred_row = pred + (long long)number * n;
        for (int j = t; j < n; j += threads) {
            length[j] = j == i ? 0.0 : infinite;
            count[j] = j == i ? 0 : n;
            pred_row[j] = NONE;
        }
        for (int step = 0; step < n; ++step) {
            double shortest = infinite;
            int edges = 0, candidate = -1;
            for (int j = t; j < n; j += threads) {
                const int h = count[j];
                if (h >= 0 && (length[j] < shortest || (length[j] == shortest && length[j] < infinite && h < edges))) {
                    shortest = length[j], edges = h, candidate = j;
                }
            }
            least[t] = shortest, fewest[t] = edges, vertices[t] = candidate;
            __syncthreads();
            for (int half = threads / 2; half; half /= 2) {
                if (t < half && vertices[t + half] >= 0) {
                    const double a = least[t], b = least[t + half];
                    const int g = fewest[t], h = fewest[t + half];
                    if (vertices[t] < 0 || b < a ||
                        (b == a && (h < g || (h == g && vertices[t + half] < vertices[t])))) {
                        least[t] = b, fewest[t] = h, vertices[t] = vertices[t + half];
                    }
                }
                __syncthreads();
            }
            const int p = vertices[0], h = fewest[0];
            const double path_length = least[0];
            __syncthreads();
            if (p < 0) break;
            if (t == 0) count[p] = -1;
            const element x = p == i ? ONE : row[p];
            for (int j = t; j < n; j += threads) {
                if (j == p || count[j] < 0 || eq(row[j], ZERO)) continue;
                const element w = A[p * a_rows + j];
                if (!is_direct(w, D[p * d_rows + j], tolerance)) continue;
                const double length_through = path_length + deviation(times(x, w), row[j]);
                if (length_through < length[j] ||
                    (length_through == length[j] && length_through < infinite && h + 1 < count[j])) {
                    length[j] = length_through, count[j] = h + 1, pred_row[j] = p;
                }
            }
            __syncthreads();
        }
        const auto weight = [&](int p, int v) { return A[p * a_rows + v]; };
        for (int j = t; j < n; j += threads) {
            if (j == i || eq(row[j], ZERO)) continue;
            if (!path_adds_up(weight, n, pred_row, i, j, row[j], tolerance, PATH)) *failure = 1;
        }
        __syncthreads();
    }
}
