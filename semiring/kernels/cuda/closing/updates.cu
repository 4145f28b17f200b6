// Changes of a closure D (n, n) after changes of edges, in place, for a ⊕ that selects. semiring/kernels/cpu/
// update_loops.py states the method. A block of threads processes one row.
//
// Better edges: an edge u → v improves only vertices that it improves in row u. With predecessors P, a vertex improves
// only if all vertices before it in the tree of row v improve, as on the host.
//
// Worse edges: the row marks the vertices whose best path may use them, by breadth-first search along edges of the tree
// or, without P, along tight edges. All marked vertices of a row then take their best offer from the values of the last
// pass, until no value improves. A pass reads only vertices with a neighbour that the last pass changed, from a list that
// the last pass made. A predecessor is the tail of a strict improvement over the values of the last pass, so predecessors
// make no circle unless a cycle gains. A row with k marked vertices ends after k + 1 passes, unless the rounding of sums
// makes a cycle gain.
//
// Edges are compressed rows by their tails (`starts`, `ends`, `lengths`) and by their heads (`first`, `tails_in`,
// `lengths_in`). ``P`` is null if it is absent. NONE: "no predecessor".
#include "semiring.cuh"

#define WARP 32
#define BATCH 8  // words that a warp reads at a time
#define EDGES 4  // edges that a thread reads at a time

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

// List the vertices (n,) that the edge u → v improves in row u, and their values in row v. No other vertex improves in
// any row. With P, ``parents`` receives for each the position of the vertex before it in the tree of row v: -1 for v
// itself, and -2 if that vertex is not listed. ``positions``: (n,), workspace. One block. The order of the list depends
// on the threads. No result does.
extern "C" __global__ void __launch_bounds__(1024)
    list_improved(const element *D, const int *P, int n, const int *tails, const int *heads, const element *weights,
                  int edge, int *vertices, int *parents, int *positions, element *values, int *size) {
    __shared__ int total;
    const int u = tails[edge], v = heads[edge];
    const element *row = D + (long long)u * n, *onwards = D + (long long)v * n, weight = weights[edge];
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const element value = onwards[j], old = row[j];
        positions[j] = -2;
        if (eq(value, ZERO) || !is_better(times(weight, value), old)) continue;
        const int place = atomicAdd(&total, 1);
        positions[j] = place, vertices[place] = j, values[place] = value;
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
            const int *vertices, const int *parents, const element *values, const int *size, unsigned char *touched,
            unsigned long long *count) {
    DYNAMIC_SHARED(improves);  // (n,), with P
    __shared__ int has_changed;
    const int u = tails[edge], v = heads[edge], listed = *size;
    const long long i = blockIdx.x;
    if (listed == 0 || i == v) return;
    element *row = D + i * n;
    const element to_tail = row[u], to_head = row[v], offer = times(to_tail, weights[edge]);
    const bool is_open = ne(to_tail, ZERO) && is_better(offer, to_head);
    __syncthreads();
    if (!is_open) return;
    if (P) {
        for (int k = threadIdx.x; k < listed; k += blockDim.x)
            improves[k] = is_better(times(offer, values[k]), row[vertices[k]]);
        do {  // once, unless the rounding of sums makes a vertex improve behind one that does not
            __syncthreads();
            if (threadIdx.x == 0) has_changed = 0;
            __syncthreads();
            for (int k = threadIdx.x; k < listed; k += blockDim.x) {
                const int before = parents[k];
                if (before == -1 || !improves[k] || (before >= 0 && improves[before])) continue;
                improves[k] = 0, has_changed = 1;
            }
            __syncthreads();
        } while (has_changed);
    }
    unsigned long long own = 0;
    for (int k = threadIdx.x; k < listed; k += blockDim.x) {
        const int j = vertices[k];
        const element value = times(offer, values[k]);
        if (P) {
            if (!improves[k]) continue;
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
// ``lists`` (two places for each), ``offers`` and ``tails_of_offers``. ``touched`` (n, n) receives the marked pairs, unless
// it is null. ``is_endless``: set if a row did not end.
extern "C" __global__ void __launch_bounds__(128)
    repair(element *D, int *P, int n, const long long *starts, const int *ends, const element *lengths, int lanes,
           int k, const int *tails, const int *heads, const element *weights, double share, double slack,
           const long long *first, const int *tails_in, const element *lengths_in, const long long *offsets,
           long long *pairs, element *values, int *vertices, int *lists, element *offers,
           int *tails_of_offers, unsigned char *touched, int *is_endless) {
    DYNAMIC_SHARED(memory);
    __shared__ int size;
    const int i = blockIdx.x;
    const long long place = offsets[i];
    if (offsets[i + 1] == place) return;
    element *row = D + (long long)i * n;
    int *tree = P ? P + (long long)i * n : nullptr, *members = vertices + place;
    const Edges edges = {starts, ends, lengths, lanes};
    const Worse worse = {k, tails, heads, weights, share, slack};
    const int words = (n + 31) / 32;
    unsigned *marks = (unsigned *)memory, *is_open = marks + words;  // the vertices that the next pass reads
    const int count = mark(row, tree, i, n, edges, worse, marks, members, &size);
    for (int m = threadIdx.x; m < count; m += blockDim.x) {
        const int v = members[m];
        const long long pair = (long long)i * n + v;
        pairs[place + m] = pair, values[place + m] = row[v];
        if (touched) touched[pair] = 1;
        row[v] = ZERO;
        if (tree) tree[v] = NONE;
    }
    int *list = members, *next = lists + 2 * place, open = count;
    for (int pass = 0;; ++pass) {
        __syncthreads();
        if (threadIdx.x == 0) size = 0;
        for (int w = threadIdx.x; w < words; w += blockDim.x) is_open[w] = 0;
        for (int m = threadIdx.x; m < open; m += blockDim.x) {
            const int v = list[m];
            const long long last = first[v + 1];
            element best = row[v];
            int from = -1;
            for (long long e = first[v]; e < last; e += EDGES) {
                int p[EDGES];
                element x[EDGES], length[EDGES];
#pragma unroll
                for (int b = 0; b < EDGES; ++b) {  // all loads begin before the first comparison
                    p[b] = e + b < last ? tails_in[e + b] : -1;
                    length[b] = e + b < last ? lengths_in[e + b] : ZERO;
                }
#pragma unroll
                for (int b = 0; b < EDGES; ++b) x[b] = p[b] < 0 ? ZERO : row[p[b]];
#pragma unroll
                for (int b = 0; b < EDGES; ++b) {
                    if (eq(x[b], ZERO) || eq(length[b], ZERO)) continue;
                    const element value = times(x[b], length[b]);
                    if (is_better(value, best)) best = value, from = p[b];
                }
            }
            offers[place + m] = best, tails_of_offers[place + m] = from;
        }
        __syncthreads();
        for (int m = threadIdx.x; m < open; m += blockDim.x) {
            const int from = tails_of_offers[place + m], v = list[m];
            if (from < 0) continue;
            row[v] = offers[place + m];
            if (tree) tree[v] = from;
            const long long last = starts[v + 1];
            for (long long e = starts[v]; e < last; e += EDGES) {
                int y[EDGES];
#pragma unroll
                for (int b = 0; b < EDGES; ++b) y[b] = e + b < last ? ends[e + b] : -1;
#pragma unroll
                for (int b = 0; b < EDGES; ++b)
                    if (y[b] >= 0 && marks[y[b] / 32] >> y[b] % 32 & 1) mark_one(y[b], is_open, next, &size);
            }
        }
        __syncthreads();
        open = size, list = next, next = lists + 2 * place + (pass % 2 ? 0 : count);
        if (!open) return;
        if (pass > count) {
            if (threadIdx.x == 0) *is_endless = 1;
            return;
        }
    }
}

// Add to ``changed`` how many of the pairs i · n + j of D have another value than before.
extern "C" __global__ void __launch_bounds__(128)
    count_changed(const element *D, const long long *pairs, const element *values, long long total,
                  unsigned long long *changed) {
    unsigned long long own = 0;
    for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < total; k += gridDim.x * blockDim.x)
        own += ne(D[pairs[k]], values[k]);
    if (own) atomicAdd(changed, own);
}
