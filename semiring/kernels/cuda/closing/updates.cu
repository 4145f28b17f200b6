// Changes of a closure D (n, n) after changes of edges, in place, for a ⊕ that selects. semiring/kernels/cpu/
// update_loops.py states the method. A block of threads processes one row.
//
// Better edges: the vertices that improve in row u are listed first, and each row walks through this list. With
// predecessors P, a vertex improves only if all vertices before it in the tree of row v improve, as on the host.
//
// Worse edges: the row marks the vertices whose best path may use them, by breadth-first search along edges of the tree
// or, without P, along tight edges. All marked vertices of a row then take their best offer from the values of the last
// pass, until no value improves. A pass reads only vertices with a neighbour that the last pass changed. A predecessor is the tail of a strict improvement over the values of the last pass, so
// predecessors make no circle unless a cycle gains. A row with k marked vertices ends after k + 1 passes, unless the
// rounding of sums makes a cycle gain.
//
// Edges are compressed rows by their tails (`starts`, `ends`, `lengths`) and by their heads (`first`, `tails_in`,
// `lengths_in`). ``P`` is null if it is absent. NONE: "no predecessor".
#include "semiring.cuh"

#define WARP 32

INLINE bool is_better(element x, element y) { return ne(plus(y, x), y); }

#ifdef HALF
INLINE double widened(half_t x) { return widen(x); }
#else
INLINE double widened(element x) { return (double)x; }
#endif

// List the vertices (n,) that the edge u → v improves in row u: no other vertex improves in any row. With P, ``parents``
// receives for each the position of the vertex before it in the tree of row v: -1 for v itself, and -2 if that vertex is
// not listed. ``positions``: (n,), workspace. One block. The order of the list depends on the threads, and no result.
extern "C" __global__ void __launch_bounds__(1024)
    list_improved(const element *D, const int *P, int n, const int *tails, const int *heads, const element *weights,
                  int edge, int *vertices, int *parents, int *positions, int *size) {
    __shared__ int total;
    const int u = tails[edge], v = heads[edge];
    const element *row = D + (long long)u * n, *onwards = D + (long long)v * n, weight = weights[edge];
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        positions[j] = -2;
        if (eq(onwards[j], ZERO) || !is_better(times(weight, onwards[j]), row[j])) continue;
        const int place = atomicAdd(&total, 1);
        positions[j] = place, vertices[place] = j;
    }
    __syncthreads();
    if (P) {
        const int *tree = P + (long long)v * n;
        for (int k = threadIdx.x; k < total; k += blockDim.x) {
            const int j = vertices[k], before = tree[j];  // a tree that is none must not lead outside of the arrays
            parents[k] = j == v ? -1 : before < 0 || before >= n ? -2 : positions[before];
        }
    }
    if (threadIdx.x == 0) *size = total;
}

// Improve rows by the edge u → v. ``touched`` (n, n): the pairs that changed before, or null. ``count``: how many pairs
// improve that were not touched.
extern "C" __global__ void __launch_bounds__(128)
    improve(element *D, int *P, int n, const int *tails, const int *heads, const element *weights, int edge,
            const int *vertices, const int *parents, const int *size, unsigned char *touched,
            unsigned long long *count) {
    DYNAMIC_SHARED(improves);  // (n,), with P
    const int u = tails[edge], v = heads[edge], listed = *size;
    const long long i = blockIdx.x;
    if (listed == 0 || i == v) return;
    element *row = D + i * n;
    const element *onwards = D + (long long)v * n, to_tail = row[u], offer = times(to_tail, weights[edge]);
    const bool is_open = ne(to_tail, ZERO) && is_better(offer, row[v]);
    __syncthreads();
    if (!is_open) return;
    unsigned long long own = 0;
    if (P) {
        for (int k = threadIdx.x; k < listed; k += blockDim.x)
            improves[k] = is_better(times(offer, onwards[vertices[k]]), row[vertices[k]]);
        __syncthreads();
    }
    for (int k = threadIdx.x; k < listed; k += blockDim.x) {
        const int j = vertices[k];
        const element value = times(offer, onwards[j]);
        if (P) {
            int x = k;
            for (int step = 0; step < listed && x >= 0 && improves[x]; ++step) x = parents[x];
            if (x != -1) continue;
            P[i * n + j] = j == v ? u : P[(long long)v * n + j];
        } else if (!is_better(value, row[j])) {
            continue;
        }
        row[j] = value;
        if (touched) {
            own += !touched[i * n + j];
            touched[i * n + j] = 1;
        } else {
            ++own;
        }
    }
    if (own) atomicAdd(count, own);
}

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

// Repair the marked vertices of each row. Row i has the places ``offsets[i]`` … ``offsets[i + 1]`` - 1 of ``rows``,
// ``columns`` and ``values``, which receive the marked pairs and their old values, and of the workspace ``offers`` and
// ``tails_of_offers``. ``is_endless``: set if a row did not end.
extern "C" __global__ void __launch_bounds__(128)
    repair(element *D, int *P, int n, const long long *starts, const int *ends, const element *lengths, int lanes,
           int k, const int *tails, const int *heads, const element *weights, double share, double slack,
           const long long *first, const int *tails_in, const element *lengths_in, const long long *offsets, int *rows,
           int *columns, element *values, element *offers, int *tails_of_offers, int *is_endless) {
    DYNAMIC_SHARED(memory);
    __shared__ int size, has_changed;
    const int i = blockIdx.x;
    const long long place = offsets[i];
    if (offsets[i + 1] == place) return;
    element *row = D + (long long)i * n;
    int *tree = P ? P + (long long)i * n : nullptr, *members = columns + place;
    const Edges edges = {starts, ends, lengths, lanes};
    const Worse worse = {k, tails, heads, weights, share, slack};
    const int words = (n + 31) / 32;
    unsigned *marks = (unsigned *)memory, *is_open = marks + words;  // the vertices that a pass reads
    const int count = mark(row, tree, i, n, edges, worse, marks, members, &size);
    for (int w = threadIdx.x; w < words; w += blockDim.x) is_open[w] = marks[w];
    for (int m = threadIdx.x; m < count; m += blockDim.x) {
        const int v = members[m];
        rows[place + m] = i, values[place + m] = row[v];
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
