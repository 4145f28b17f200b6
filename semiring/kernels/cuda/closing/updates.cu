// Changes of a closure D (n, n) after changes of edges, in place, for a ⊕ that selects. semiring/kernels/cpu/
// update_loops.py states the method. A block of threads processes one row.
//
// Better edges: an edge u → v improves only vertices that it improves in row u. With predecessors P, a vertex improves
// only if all vertices before it in the tree of row v improve, as on the host.
//
// Worse edges: the row marks the vertices whose best path may use them, by breadth-first search along edges of the tree
// or, without P, along tight edges. All marked vertices of a row then take their best offer from the values of the last
// pass, until no value improves. A pass reads only vertices with a neighbour that the last pass changed. A
// predecessor is the tail of a strict improvement over the values of the last pass, so predecessors make no circle
// unless a cycle gains. A row with k marked vertices ends after k + 1 passes, unless the rounding of sums makes a cycle
// gain.
//
// Edges are compressed rows by their tails (`starts`, `ends`, `lengths`) and by their heads (`first`, `tails_in`,
// `lengths_in`). ``P`` is null if it is absent. NONE: "no predecessor".
#include "semiring.cuh"

#define WARP 32
#define BATCH 8  // words that a warp reads at a time

INLINE bool is_better(element x, element y) { return ne(plus(y, x), y); }

#ifdef HALF
INLINE double widened(half_t x) { return widen(x); }
#else
INLINE double widened(element x) { return (double)x; }
#endif

// Edges ---------------------------------------------------------------------------------------------------------------

// Write a bit for each edge of A (n, n) between different vertices, ⌈n/32⌉ words for a row, and the number of edges of
// each row i to ``offsets[i + 1]``. One warp for each row.
extern "C" __global__ void __launch_bounds__(WARP)
    find_edges(const element *A, int n, unsigned *bits, long long *offsets) {
    const int lane = threadIdx.x, words = (n + WARP - 1) / WARP, i = blockIdx.x;
    const element *row = A + (long long)i * n;
    unsigned *own = bits + (long long)i * words;
    int count = 0;
    for (int first = 0; first < words; first += BATCH) {
        bool is_edge[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {  // all loads begin before the first ballot
            const int j = (first + b) * WARP + lane;
            is_edge[b] = j < n && j != i && ne(row[j], ZERO);
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const unsigned word = __ballot_sync(~0u, is_edge[b]);
            if (lane == 0 && first + b < words) own[first + b] = word;
            count += __popc(word);
        }
    }
    if (lane == 0) offsets[i + 1] = count;
    if (lane == 0 && i == 0) offsets[0] = 0;
}

// Count the edges to the heads 32 w + lane, for w = blockIdx.x. Warp k counts those of the k-th part of the rows, from
// ``first`` to ``last`` - 1, in ``counts[k]``.
INLINE void count_in_parts(const unsigned *bits, int n, int counts[WARP][WARP], int &first, int &last) {
    const int lane = threadIdx.x % WARP, part = threadIdx.x / WARP, words = (n + WARP - 1) / WARP;
    const int step = (n + WARP - 1) / WARP;
    first = part * step < n ? part * step : n;
    last = first + step < n ? first + step : n;
    int count = 0;
    for (int i = first; i < last; ++i) count += bits[(long long)i * words + blockIdx.x] >> lane & 1;
    counts[part][lane] = count;
    __syncthreads();
}

// Write the number of edges to each head j to ``offsets[n + 1 + j]``. A block of 32 warps for 32 heads.
extern "C" __global__ void __launch_bounds__(WARP *WARP)
    count_columns(const unsigned *bits, int n, long long *offsets) {
    __shared__ int counts[WARP][WARP];
    int first, last;
    count_in_parts(bits, n, counts, first, last);
    const int j = blockIdx.x * WARP + threadIdx.x;
    if (threadIdx.x >= WARP || j >= n) return;
    long long total = 0;
    for (int part = 0; part < WARP; ++part) total += counts[part][threadIdx.x];
    offsets[n + 1 + j] = total;
}

// List heads and weights of the edges of each row in order. One warp for each row.
extern "C" __global__ void __launch_bounds__(WARP)
    list_rows(const element *A, const unsigned *bits, int n, const long long *starts, int *heads, element *weights) {
    const int lane = threadIdx.x, words = (n + WARP - 1) / WARP;
    const long long i = blockIdx.x;
    long long begin = starts[i];
    if (starts[i + 1] == begin) return;
    for (int first = 0; first < words; first += WARP) {
        unsigned word = first + lane < words ? bits[i * words + first + lane] : 0;
        int end = __popc(word);  // after the edges of the words up to that of this lane
        for (int step = 1; step < WARP; step *= 2) {
            const int before = __shfl_sync(~0u, end, lane < step ? lane : lane - step);
            if (lane >= step) end += before;
        }
        const int total = __shfl_sync(~0u, end, WARP - 1);
        for (long long place = begin + end - __popc(word); word; word &= word - 1, ++place) {
            const int j = (first + lane) * WARP + __ffs(word) - 1;
            heads[place] = j, weights[place] = A[i * n + j];
        }
        begin += total;
    }
}

// List tails and weights of the edges of each column in order. A block of 32 warps for 32 columns.
extern "C" __global__ void __launch_bounds__(WARP *WARP)
    list_columns(const element *A, const unsigned *bits, int n, const long long *starts, int *tails,
                 element *weights) {
    __shared__ int counts[WARP][WARP];
    int first, last;
    count_in_parts(bits, n, counts, first, last);
    const int lane = threadIdx.x % WARP, j = blockIdx.x * WARP + lane, words = (n + WARP - 1) / WARP;
    if (j >= n) return;
    long long place = starts[j];
    for (int part = 0; part < threadIdx.x / WARP; ++part) place += counts[part][lane];
    for (int i = first; i < last; ++i)
        if (bits[(long long)i * words + blockIdx.x] >> lane & 1)
            tails[place] = i, weights[place] = A[(long long)i * n + j], ++place;
}

// Better edges --------------------------------------------------------------------------------------------------------

// ``states`` (n,): 0 for a vertex that does not improve, 1 for one that improves, and 2 for one that improves as all
// vertices before it in the tree do. Return whether j is such a vertex.
INLINE bool all_improve(const int *tree, int n, int j, unsigned char *states) {
    int x = j;
    for (int step = 0; step < n && states[x] == 1; ++step) {
        x = tree[x];
        if (x < 0 || x >= n) break;  // a tree that is none must not lead outside of the arrays
    }
    const bool found = x >= 0 && x < n && states[x] == 2;
    states[j] = found ? 2 : 0;
    return found;
}

// Improve row i by the edge u → v. ``before`` (n,): row u without this edge.
INLINE void improve_row(element *D, int *P, int n, long long i, int u, int v, element weight, const element *before,
                        unsigned char *states, unsigned char *touched, unsigned long long *count) {
    if (i == v) return;
    element *row = D + i * n;
    const element *onwards = D + (long long)v * n, to_tail = row[u], offer = times(to_tail, weight);
    const int *tree = P + (long long)v * n;
    const bool improves_tail = !P || is_better(times(weight, onwards[v]), before[v]);
    const bool is_open = ne(to_tail, ZERO) && is_better(offer, row[v]) && improves_tail;
    __syncthreads();
    if (!is_open) return;
    if (P) {
#pragma unroll 4
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            const element y = onwards[j], x = row[j], from_tail = before[j];
            const bool improves = ne(y, ZERO) && is_better(times(weight, y), from_tail) && is_better(times(offer, y), x);
            states[j] = j == v ? 2 : improves;
        }
        __syncthreads();
    }
    unsigned long long own = 0;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        if (P) {
            if (!states[j] || !all_improve(tree, n, j, states)) continue;
            P[i * n + j] = j == v ? u : tree[j];
        } else {
            const element y = onwards[j];
            if (eq(y, ZERO) || !is_better(times(weight, y), before[j]) || !is_better(times(offer, y), row[j])) continue;
        }
        row[j] = times(offer, onwards[j]);
        if (touched) {
            own += !touched[i * n + j];
            touched[i * n + j] = 1;
        } else {
            ++own;
        }
    }
    if (own) atomicAdd(count, own);
}

// Improve all rows by one of k edges. ``rows`` (2, n): the row of the tail of this edge, in the place ``edge`` % 2, and
// the result for the tail of the next edge, in the other place. ``touched`` (n, n): the pairs that changed before, or
// null. ``count``: how many pairs improve that were not touched.
extern "C" __global__ void __launch_bounds__(128)
    improve(element *D, int *P, int n, int k, const int *tails, const int *heads, const element *weights, int edge,
            element *rows, unsigned char *touched, unsigned long long *count) {
    DYNAMIC_SHARED(states);  // (n,), with P
    const long long i = blockIdx.x;
    const element *before = rows + (long long)(edge % 2) * n;
    improve_row(D, P, n, i, tails[edge], heads[edge], weights[edge], before, (unsigned char *)states, touched, count);
    if (edge + 1 == k || i != tails[edge + 1]) return;
    __syncthreads();
    element *next = rows + (long long)((edge + 1) % 2) * n;
    for (int j = threadIdx.x; j < n; j += blockDim.x) next[j] = D[i * n + j];
}

// Worse edges ---------------------------------------------------------------------------------------------------------

struct Edges {
    const long long *starts;
    const int *ends;
    const element *lengths;
    int lanes;  // the threads that share the edges of a vertex, a divisor of a warp
};
// The edges that become worse, with their old weights.
struct Worse {
    int count;
    const int *tails, *heads;
    const element *weights;
    double share, slack;
};

INLINE bool is_tight(element x, element y, const Worse &worse) {
    if (eq(x, y)) return true;
    const double a = widened(x), b = widened(y);
    return fabs(a - b) <= worse.share * (fabs(a) + fabs(b)) + worse.slack;
}

INLINE void mark_one(int v, unsigned *marks, int *members, int *size) {
    const unsigned bit = 1u << v % 32;
    if (!(atomicOr(marks + v / 32, bit) & bit)) members[atomicAdd(size, 1)] = v;
}

// Mark and list the vertices whose best path from i may use a worse edge. ``marks``: ⌈n/32⌉ words, and ``size``: one
// word, of shared memory. ``members`` (n,). Return their number.
INLINE int mark(const element *row, const int *tree, int i, int n, const Edges &edges, const Worse &worse,
                unsigned *marks, int *members, int *size) {
    for (int w = threadIdx.x; w < (n + 31) / 32; w += blockDim.x) marks[w] = 0;
    if (threadIdx.x == 0) *size = 0;
    __syncthreads();
    for (int e = threadIdx.x; e < worse.count; e += blockDim.x) {
        const int u = worse.tails[e], v = worse.heads[e];
        if (v == i || eq(row[u], ZERO) || eq(row[v], ZERO)) continue;
        if (tree ? tree[v] == u : is_tight(times(row[u], worse.weights[e]), row[v], worse))
            mark_one(v, marks, members, size);
    }
    __syncthreads();
    for (int begin = 0;;) {
        const int end = *size;
        __syncthreads();
        if (begin == end) return end;
        for (int k = begin + threadIdx.x / edges.lanes; k < end; k += blockDim.x / edges.lanes) {
            const int x = members[k];
            const long long last = edges.starts[x + 1];
            for (long long e = edges.starts[x] + threadIdx.x % edges.lanes; e < last; e += edges.lanes) {
                const int y = edges.ends[e];
                if (y == i || eq(row[y], ZERO)) continue;
                if (tree ? tree[y] == x
                         : ne(edges.lengths[e], ZERO) && is_tight(times(row[x], edges.lengths[e]), row[y], worse))
                    mark_one(y, marks, members, size);
            }
        }
        __syncthreads();
        begin = end;
    }
}

// ``counts`` (n,): how many vertices of each row are marked. ``lists``: (gridDim.x, n), workspace.
extern "C" __global__ void __launch_bounds__(128)
    count_users(const element *D, const int *P, int n, const long long *starts, const int *ends,
                const element *lengths, int lanes, int k, const int *tails, const int *heads, const element *weights,
                double share, double slack, int *lists, long long *counts) {
    DYNAMIC_SHARED(memory);
    __shared__ int size;
    const Edges edges = {starts, ends, lengths, lanes};
    const Worse worse = {k, tails, heads, weights, share, slack};
    int *members = lists + (long long)blockIdx.x * n;
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        const long long at = (long long)i * n;
        const int count = mark(D + at, P ? P + at : nullptr, i, n, edges, worse, (unsigned *)memory, members, &size);
        if (threadIdx.x == 0) counts[i] = count;
        __syncthreads();
    }
}

// Repair the marked vertices of each row. Row i has the places ``offsets[i]`` … ``offsets[i + 1]`` - 1 of ``pairs`` and
// ``values``, which receive the marked pairs i · n + j and their old values, and of the workspace ``vertices``,
// ``offers`` and ``tails_of_offers``. ``touched`` (n, n): receives the marked pairs, or null. ``is_endless``: set if a
// row did not end.
extern "C" __global__ void __launch_bounds__(128)
    repair(element *D, int *P, int n, const long long *starts, const int *ends, const element *lengths, int lanes,
           int k, const int *tails, const int *heads, const element *weights, double share, double slack,
           const long long *first, const int *tails_in, const element *lengths_in, const long long *offsets,
           long long *pairs, element *values, int *vertices, element *offers, int *tails_of_offers,
           unsigned char *touched, int *is_endless) {
    DYNAMIC_SHARED(memory);
    __shared__ int size, has_changed;
    const int i = blockIdx.x;
    const long long place = offsets[i];
    if (offsets[i + 1] == place) return;
    element *row = D + (long long)i * n;
    int *tree = P ? P + (long long)i * n : nullptr, *members = vertices + place;
    const Edges edges = {starts, ends, lengths, lanes};
    const Worse worse = {k, tails, heads, weights, share, slack};
    const int words = (n + 31) / 32;
    unsigned *marks = (unsigned *)memory, *is_open = marks + words;  // the vertices that a pass reads
    const int count = mark(row, tree, i, n, edges, worse, marks, members, &size);
    for (int w = threadIdx.x; w < words; w += blockDim.x) is_open[w] = marks[w];
    for (int m = threadIdx.x; m < count; m += blockDim.x) {
        const int v = members[m];
        const long long pair = (long long)i * n + v;
        pairs[place + m] = pair, values[place + m] = row[v];
        if (touched) touched[pair] = 1;
        row[v] = ZERO;
        if (tree) tree[v] = NONE;
    }
    for (int pass = 0;; ++pass) {
        __syncthreads();
        if (threadIdx.x == 0) has_changed = 0;
        for (int m = threadIdx.x; m < count; m += blockDim.x) {
            const int v = members[m];
            element best = row[v];
            int from = -1;
            if (!(is_open[v / 32] >> v % 32 & 1)) {
                tails_of_offers[place + m] = -1;
                continue;
            }
            for (long long e = first[v]; e < first[v + 1]; ++e) {
                const int p = tails_in[e];
                if (eq(row[p], ZERO) || eq(lengths_in[e], ZERO)) continue;
                const element value = times(row[p], lengths_in[e]);
                if (is_better(value, best)) best = value, from = p;
            }
            offers[place + m] = best, tails_of_offers[place + m] = from;
        }
        __syncthreads();
        for (int w = threadIdx.x; w < words; w += blockDim.x) is_open[w] = 0;
        __syncthreads();
        for (int m = threadIdx.x; m < count; m += blockDim.x) {
            const int from = tails_of_offers[place + m], v = members[m];
            if (from < 0) continue;
            row[v] = offers[place + m];
            if (tree) tree[v] = from;
            has_changed = 1;
            for (long long e = starts[v]; e < starts[v + 1]; ++e) {
                const unsigned bit = 1u << ends[e] % 32;
                if (marks[ends[e] / 32] & bit) atomicOr(is_open + ends[e] / 32, bit);
            }
        }
        __syncthreads();
        if (!has_changed) return;
        if (pass > count) {
            if (threadIdx.x == 0) *is_endless = 1;
            return;
        }
    }
}
