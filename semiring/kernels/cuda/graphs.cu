// Graph operations on a matrix in the memory of a GPU: a scan of its structure, its edges as bits, permuted panels,
// distances of edges of one weight, and spanning forests with the bottlenecks of their paths.
//
// Entries are unsigned integers U as wide as those of the matrix, and hold their bits. KIND says how they are ordered: 0
// as they are, 1 as signed integers, 2 as floats. Rows of a matrix are `stride` entries apart, columns adjacent.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
typedef unsigned Bits;
typedef unsigned long long Wide;
typedef long long Index;

// The place of an entry among all in increasing order, or, with `largest`, in decreasing order; and the entry there.
__device__ __forceinline__ U rank_of(U x, int largest) {
    const U sign = U(U(1) << (8 * sizeof(U) - 1));
    U place = KIND == 0 ? x : KIND == 2 && (x & sign) ? U(~x) : U(x ^ sign);
    return largest ? U(~place) : place;
}
__device__ __forceinline__ U entry_at(U place, int largest) {
    const U sign = U(U(1) << (8 * sizeof(U) - 1));
    if (largest) place = U(~place);
    return KIND == 0 ? place : KIND == 2 && !(place & sign) ? U(~place) : U(place ^ sign);
}

// A block for each pair of tiles of 32 × 32 that mirror each other, 256 threads. found: flags (1 not symmetric, 2 an edge
// below the diagonal), how many edges, and of the entries of those between two vertices the complement of the least and
// the greatest. All 0 before.
extern "C" __global__ void __launch_bounds__(256) look(const U *A, Index stride, int n, U none, Wide *found) {
    __shared__ U tile[32][33];
    __shared__ Wide least, greatest;
    __shared__ Bits flags, edges;
    const int first = 32 * blockIdx.y, second = 32 * blockIdx.x, x = threadIdx.x % 32;
    if (second < first) return;
    if (threadIdx.x == 0) flags = edges = 0, least = greatest = 0;
    __syncthreads();
    Wide low = 0, high = 0;
    Bits count = 0, seen = 0;
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        if (first + y >= n || second + x >= n) continue;
        const U entry = A[(first + y) * stride + second + x];
        tile[y][x] = entry;
        if (entry == none) continue;
        ++count;
        if (first + y > second + x) seen |= 2;
        if (first + y == second + x) continue;
        if (low < ~Wide(entry)) low = ~Wide(entry);
        if (high < Wide(entry)) high = entry;
    }
    __syncthreads();
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        if (second + y >= n || first + x >= n) continue;
        const U entry = A[(second + y) * stride + first + x];
        if (entry != tile[x][y]) seen |= 1;
        if (second == first || entry == none) continue;
        ++count, seen |= 2;
        if (low < ~Wide(entry)) low = ~Wide(entry);
        if (high < Wide(entry)) high = entry;
    }
    if (seen) atomicOr(&flags, seen);
    if (count) atomicAdd(&edges, count);
    if (low || high) atomicMax(&least, low), atomicMax(&greatest, high);
    __syncthreads();
    if (threadIdx.x) return;
    if (flags & ~(Bits)found[0]) atomicOr(found, Wide(flags));
    if (edges) atomicAdd(found + 1, Wide(edges));
    if (least > found[2]) atomicMax(found + 2, least);
    if (greatest > found[3]) atomicMax(found + 3, greatest);
}

// A block a row, 256 threads. words: (n, width), bit b of word w is column 32 w + b.
extern "C" __global__ void __launch_bounds__(256)
    edge_words(const U *A, Index stride, int n, int width, U none, Bits *words) {
    __shared__ unsigned char edge[2048];
    const Index row = blockIdx.x;
    for (int start = 0; start < n; start += 2048) {
        for (int k = threadIdx.x; k < 2048; k += blockDim.x) edge[k] = start + k < n && A[row * stride + start + k] != none;
        __syncthreads();
        for (int w = threadIdx.x; w < 64 && start / 32 + w < width; w += blockDim.x) {
            Bits word = 0;
            for (int b = 0; b < 32; ++b) word |= Bits(edge[32 * w + b]) << b;
            words[row * width + start / 32 + w] = word;
        }
        __syncthreads();
    }
}

// A block a row of out (m, n). out[i, j] = A[rows[i], columns[j]]; without rows or columns those of the same number. With
// `staged` rows go through shared memory: without rows, A and out may be one matrix then.
extern "C" __global__ void __launch_bounds__(256)
    gather(const U *A, Index stride, U *out, Index out_stride, int n, const int *rows, const int *columns, int staged) {
    DYNAMIC_SHARED(memory);
    U *row = (U *)memory;
    const Index i = blockIdx.x;
    const U *from = A + (rows ? rows[i] : i) * stride;
    if (staged) {
        for (int j = threadIdx.x; j < n; j += blockDim.x) row[j] = from[j];
        __syncthreads();
        from = row;
    }
    for (int j = threadIdx.x; j < n; j += blockDim.x) out[i * out_stride + j] = from[columns ? columns[j] : j];
}

// A block a tile of 32 × 32 of out (m, n), 256 threads: out[i, j] = A[j, i]. With `below`: only where j < i, A and out may
// be one matrix then.
extern "C" __global__ void __launch_bounds__(256)
    transpose(const U *A, Index stride, U *out, Index out_stride, int m, int n, int below) {
    __shared__ U tile[32][33];
    const int i0 = 32 * blockIdx.y, j0 = 32 * blockIdx.x, x = threadIdx.x % 32;
    if (below && j0 > i0) return;
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        if (j0 + y < n && i0 + x < m) tile[y][x] = A[(j0 + y) * stride + i0 + x];
    }
    __syncthreads();
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        const int i = i0 + y, j = j0 + x;
        if (i < m && j < n && (!below || j < i)) out[i * out_stride + j] = tile[x][y];
    }
}

// A level of the breadth-first searches to all vertices, 32 targets to a word. A block of 256 threads for each vertex (x)
// and 256 words of targets (y). An edge leads v to a target at this level where it leads to a vertex that came there at
// the last one. `last` and `next` hold what came at a level, and count only where `active` and `fresh` are set, one flag a
// block; `seen` holds all that came, what lies beyond n included. Edges are lists, or without `starts` bits.
extern "C" __global__ void __launch_bounds__(256)
    hop_level(const Index *starts, const int *heads, const Bits *edges, const Bits *last, const unsigned char *active,
              Bits *next, unsigned char *fresh, Bits *seen, U *D, Index stride, U value, int n, int width, int level,
              int *latest) {
    __shared__ Bits news[256];
    __shared__ Bits some, open;
    const Index v = blockIdx.x, group = blockIdx.y, groups = gridDim.y;
    const int w = 256 * (int)group + threadIdx.x;
    const bool inside = w < width;
    const Bits missing = inside ? ~seen[v * width + w] : 0u;
    if (threadIdx.x == 0) some = open = 0;
    __syncthreads();
    Bits found = 0;
    if (starts) {
        if (missing) {
            for (Index e = starts[v]; e < starts[v + 1] && missing & ~found; ++e) {
                const Index u = heads[e];
                if (active[u * groups + group]) found |= last[u * width + w];
            }
        }
    } else if (missing) {
        for (int word = 0; word < width && missing & ~found; ++word) {
            for (Bits rest = edges[v * width + word]; rest && missing & ~found; rest &= rest - 1) {
                const Index u = 32 * word + __ffs((int)rest) - 1;
                if (active[u * groups + group]) found |= last[u * width + w];
            }
        }
    }
    found &= missing;
    news[threadIdx.x] = found;
    if (found) atomicOr(&some, 1u);
    __syncthreads();
    if (threadIdx.x == 0) fresh[v * groups + group] = some != 0;
    if (!some) return;
    if (threadIdx.x == 0) *latest = level;
    if (inside) {
        next[v * width + w] = found;
        if (found) seen[v * width + w] |= found;
    }
    U *row = D + v * stride + 8192 * group;
    for (int k = threadIdx.x; k < 8192; k += blockDim.x) {
        if (news[k / 32] >> k % 32 & 1) row[k] = value;
    }
}

// ------------------------------------------------------------------------------------------------- spanning forests

// A block a row, 256 threads. The best edge to a vertex of another tree: its place in the order, and its head, -1 where
// there is none. Of equal ones the first. And for each tree the best place of all; all bits set before.
extern "C" __global__ void __launch_bounds__(256) best_edges(const U *A, Index stride, int n, U none, int largest,
                                                              const int *tree, U *place, int *head, Wide *best) {
    __shared__ U places[256];
    __shared__ int heads[256];
    const int i = blockIdx.x, own = tree[i], t = threadIdx.x;
    U least = 0;
    int found = -1;
    for (int j = t; j < n; j += blockDim.x) {
        const U entry = A[i * stride + j];
        if (entry == none || tree[j] == own) continue;
        const U here = rank_of(entry, largest);
        if (found < 0 || here < least) least = here, found = j;
    }
    places[t] = least, heads[t] = found;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (t < half) {
            const int other = heads[t + half];
            const bool earlier = places[t + half] < places[t] || (places[t + half] == places[t] && other < heads[t]);
            if (other >= 0 && (heads[t] < 0 || earlier)) places[t] = places[t + half], heads[t] = other;
        }
        __syncthreads();
    }
    if (t) return;
    place[i] = places[0], head[i] = heads[0];
    if (heads[0] >= 0) atomicMin(best + own, Wide(places[0]));
}

// A thread a vertex. Among the best edges of a tree the first, by the smaller of its two vertices, then by the other.
extern "C" __global__ void __launch_bounds__(256)
    first_edges(int n, const int *tree, const U *place, const int *head, const Wide *best, Wide *edge) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || head[i] < 0 || Wide(place[i]) != best[tree[i]]) return;
    const Wide low = i < head[i] ? i : head[i], high = i < head[i] ? head[i] : i;
    atomicMin(edge + tree[i], low * n + high);
}

// A thread a vertex, of which those that give a tree its number count: the tree that its edge leads to.
extern "C" __global__ void __launch_bounds__(256) hook(int n, const int *tree, const Wide *edge, int *above) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || tree[i] != i) return;
    if (edge[i] == ~Wide(0)) {
        above[i] = i;
        return;
    }
    const int low = (int)(edge[i] / n), high = (int)(edge[i] % n);
    above[i] = tree[low] == i ? tree[high] : tree[low];
}

// The same threads. Two trees that lead to each other do so by one edge: the one of the smaller number stays. The others'
// edges are listed.
extern "C" __global__ void __launch_bounds__(256)
    keep_edges(int n, const int *tree, const Wide *edge, const Wide *best, int *above, Wide *edges, Wide *places,
               Bits *count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || tree[i] != i || above[i] == i) return;
    if (i < above[i] && edge[i] == edge[above[i]]) return;
    const Bits at = atomicAdd(count, 1u);
    edges[at] = edge[i], places[at] = best[i];
}

// A thread a vertex: the number of its tree, after trees were hooked to others. Of two that lead to each other the smaller.
extern "C" __global__ void __launch_bounds__(256) follow(int n, const int *above, int *tree) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = tree[i];
    while (above[at] != at && !(above[above[at]] == at && at < above[at])) at = above[at];
    tree[i] = at;
}

// A block a row of D (n, n), 256 threads. `worst`: (levels, n), in level k the worst of 2^k edges from each place on, as
// places in the order; the bottleneck between two vertices is the worst of the edges behind the first, up to the second.
extern "C" __global__ void __launch_bounds__(256)
    fill_bottlenecks(U *D, Index stride, int n, const U *worst, const int *position, U one, int largest) {
    const Index i = blockIdx.x;
    const int own = position[i];
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const int other = position[j], low = own < other ? own : other, high = own < other ? other : own;
        U entry = one;
        if (low != high) {
            const int level = 31 - __clz(high - low);
            const U first = worst[Index(level) * n + low + 1], second = worst[Index(level) * n + high + 1 - (1 << level)];
            entry = entry_at(first < second ? second : first, largest);
        }
        D[i * stride + j] = entry;
    }
}
