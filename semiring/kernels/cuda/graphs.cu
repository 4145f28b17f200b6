// Graph operations on a matrix in the memory of a GPU: a scan of its structure, its edges as bits, and permuted panels;
// distances if all edges have one weight; spanning forests with the bottlenecks of their paths.
//
// Entries are read as unsigned integers U of the same width. KIND gives their order: 0 for unsigned integers, 1 for
// signed integers, 2 for floats. Rows of a matrix are `stride` entries apart, and the entries of a row are adjacent.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
typedef unsigned Bits;
typedef unsigned long long Wide;
typedef long long Index;

// rank_of: the rank of an entry in increasing order, or, with `largest`, in decreasing order. entry_at: the entry with
// this rank.
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

// Scan the structure, one block of 256 threads per pair of 32 × 32 tiles that mirror each other. ``result`` has four
// words, all 0 before. They are flags (1: not symmetric, 2: an edge below the diagonal), the number of edges, the
// complement of the least entry, and the greatest entry. The last two words consider only edges between two different
// vertices.
extern "C" __global__ void __launch_bounds__(256) look(const U *A, Index stride, int n, U none, Wide *result) {
    __shared__ U tile[32][33];
    __shared__ Wide least, greatest;
    __shared__ Bits flags, edges;
    const int first = 32 * blockIdx.y, second = 32 * blockIdx.x, x = threadIdx.x % 32;
    if (second < first) return;
    if (threadIdx.x == 0) flags = edges = 0, least = greatest = 0;
    __syncthreads();
    Wide low = 0, high = 0;
    Bits count = 0, flag_bits = 0;
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        if (first + y >= n || second + x >= n) continue;
        const U entry = A[(first + y) * stride + second + x];
        tile[y][x] = entry;
        if (entry == none) continue;
        ++count;
        if (first + y > second + x) flag_bits |= 2;
        if (first + y == second + x) continue;
        if (low < ~Wide(entry)) low = ~Wide(entry);
        if (high < Wide(entry)) high = entry;
    }
    __syncthreads();
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        if (second + y >= n || first + x >= n) continue;
        const U entry = A[(second + y) * stride + first + x];
        if (entry != tile[x][y]) flag_bits |= 1;
        if (second == first || entry == none) continue;
        ++count, flag_bits |= 2;
        if (low < ~Wide(entry)) low = ~Wide(entry);
        if (high < Wide(entry)) high = entry;
    }
    if (flag_bits) atomicOr(&flags, flag_bits);
    if (count) atomicAdd(&edges, count);
    if (low || high) atomicMax(&least, low), atomicMax(&greatest, high);
    __syncthreads();
    if (threadIdx.x) return;
    if (flags & ~(Bits)result[0]) atomicOr(result, Wide(flags));
    if (edges) atomicAdd(result + 1, Wide(edges));
    if (least > result[2]) atomicMax(result + 2, least);
    if (greatest > result[3]) atomicMax(result + 3, greatest);
}

// Pack edges, one block of 256 threads per row. ``words``: (n, width). Bit b of word w is column 32 w + b.
extern "C" __global__ void __launch_bounds__(256)
    edge_words(const U *A, Index stride, int n, int width, U none, Bits *words) {
    __shared__ unsigned char edge[2048];
    const Index row = blockIdx.x;
    for (int start = 0; start < n; start += 2048) {
        for (int k = threadIdx.x; k < 2048; k += blockDim.x)
            edge[k] = start + k < n && A[row * stride + start + k] != none;
        __syncthreads();
        for (int w = threadIdx.x; w < 64 && start / 32 + w < width; w += blockDim.x) {
            Bits word = 0;
            for (int b = 0; b < 32; ++b) word |= Bits(edge[32 * w + b]) << b;
            words[row * width + start / 32 + w] = word;
        }
        __syncthreads();
    }
}

// out[i, j] = A[rows[i], columns[j]], one block per row of out (m, n). If rows or columns are null, the index is not
// permuted. With `is_staged`, rows pass through shared memory. If rows is also null, A and out may be one matrix.
extern "C" __global__ void __launch_bounds__(256) gather(const U *A, Index stride, U *out, Index out_stride, int n,
                                                         const int *rows, const int *columns, int is_staged) {
    DYNAMIC_SHARED(memory);
    U *row = (U *)memory;
    const Index i = blockIdx.x;
    const U *source = A + (rows ? rows[i] : i) * stride;
    if (is_staged) {
        for (int j = threadIdx.x; j < n; j += blockDim.x) row[j] = source[j];
        __syncthreads();
        source = row;
    }
    for (int j = threadIdx.x; j < n; j += blockDim.x) out[i * out_stride + j] = source[columns ? columns[j] : j];
}

// out[i, j] = A[j, i], one block of 256 threads per 32 × 32 tile of out (m, n). With `only_below`, only entries with j
// < i are written, and A and out may be one matrix.
extern "C" __global__ void __launch_bounds__(256)
    transpose(const U *A, Index stride, U *out, Index out_stride, int m, int n, int only_below) {
    __shared__ U tile[32][33];
    const int i0 = 32 * blockIdx.y, j0 = 32 * blockIdx.x, x = threadIdx.x % 32;
    if (only_below && j0 > i0) return;
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        if (j0 + y < n && i0 + x < m) tile[y][x] = A[(j0 + y) * stride + i0 + x];
    }
    __syncthreads();
    for (int y = threadIdx.x / 32; y < 32; y += 8) {
        const int i = i0 + y, j = j0 + x;
        if (i < m && j < n && (!only_below || j < i)) out[i * out_stride + j] = tile[x][y];
    }
}

// One level of the breadth-first searches to all vertices. A word has the bits of 32 targets. There is one block of 256
// threads for each vertex v (x) and 256 words of targets (y). An edge from v gives v the targets that the head of the
// edge reached at the preceding level.
//
// `frontier` and `next_frontier` hold the targets that a level reached. Their words are valid only where `is_active`
// and `is_fresh` are set, one flag per block. `reached` holds the targets of all levels, and counts bits beyond n as
// reached. Edges are lists, or, if `starts` is null, bits.
extern "C" __global__ void __launch_bounds__(256)
    hop_level(const Index *starts, const int *heads, const Bits *edges, const Bits *frontier,
              const unsigned char *is_active, Bits *next_frontier, unsigned char *is_fresh, Bits *reached, U *D,
              Index stride, U value, int n, int width, int level, int *last_level) {
    __shared__ Bits news[256];
    __shared__ Bits has_news, open;
    const Index v = blockIdx.x, group = blockIdx.y, groups = gridDim.y;
    const int w = 256 * (int)group + threadIdx.x;
    const bool is_inside = w < width;
    const Bits open_targets = is_inside ? ~reached[v * width + w] : 0u;
    if (threadIdx.x == 0) has_news = open = 0;
    __syncthreads();
    Bits arrivals = 0;
    if (starts) {
        if (open_targets) {
            for (Index e = starts[v]; e < starts[v + 1] && open_targets & ~arrivals; ++e) {
                const Index u = heads[e];
                if (is_active[u * groups + group]) arrivals |= frontier[u * width + w];
            }
        }
    } else if (open_targets) {
        for (int word = 0; word < width && open_targets & ~arrivals; ++word) {
            for (Bits rest = edges[v * width + word]; rest && open_targets & ~arrivals; rest &= rest - 1) {
                const Index u = 32 * word + __ffs((int)rest) - 1;
                if (is_active[u * groups + group]) arrivals |= frontier[u * width + w];
            }
        }
    }
    arrivals &= open_targets;
    news[threadIdx.x] = arrivals;
    if (arrivals) atomicOr(&has_news, 1u);
    __syncthreads();
    if (threadIdx.x == 0) is_fresh[v * groups + group] = has_news != 0;
    if (!has_news) return;
    if (threadIdx.x == 0) *last_level = level;
    if (is_inside) {
        next_frontier[v * width + w] = arrivals;
        if (arrivals) reached[v * width + w] |= arrivals;
    }
    U *row = D + v * stride + 8192 * group;
    for (int k = threadIdx.x; k < 8192; k += blockDim.x) {
        if (news[k / 32] >> k % 32 & 1) row[k] = value;
    }
}

// ------------------------------------------------------------------------------------------------- spanning forests

// The best edge from each vertex to another tree, one block of 256 threads per row: its rank and its head, -1 if there
// is no such edge. Among equal edges it is the first. ``best`` becomes the best rank of each tree, and has all bits set
// before.
extern "C" __global__ void __launch_bounds__(256) best_edges(const U *A, Index stride, int n, U none, int largest,
                                                              const int *tree, U *place, int *head, Wide *best) {
    __shared__ U places[256];
    __shared__ int heads[256];
    const int i = blockIdx.x, own = tree[i], t = threadIdx.x;
    U least = 0;
    int best_head = -1;
    for (int j = t; j < n; j += blockDim.x) {
        const U entry = A[i * stride + j];
        if (entry == none || tree[j] == own) continue;
        const U rank = rank_of(entry, largest);
        if (best_head < 0 || rank < least) least = rank, best_head = j;
    }
    places[t] = least, heads[t] = best_head;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (t < half) {
            const int other = heads[t + half];
            const bool is_earlier = places[t + half] < places[t] || (places[t + half] == places[t] && other < heads[t]);
            if (other >= 0 && (heads[t] < 0 || is_earlier)) places[t] = places[t + half], heads[t] = other;
        }
        __syncthreads();
    }
    if (t) return;
    place[i] = places[0], head[i] = heads[0];
    if (heads[0] >= 0) atomicMin(best + own, Wide(places[0]));
}

// Select one of the best edges of each tree, one thread per vertex. It is the first by the smaller of its two vertices,
// then by the other vertex.
extern "C" __global__ void __launch_bounds__(256)
    first_edges(int n, const int *tree, const U *place, const int *head, const Wide *best, Wide *edge) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || head[i] < 0 || Wide(place[i]) != best[tree[i]]) return;
    const Wide low = i < head[i] ? i : head[i], high = i < head[i] ? head[i] : i;
    atomicMin(edge + tree[i], low * n + high);
}

// Find the tree to which the edge of a tree leads. There is one thread per vertex, and only the vertices that number a
// tree act.
extern "C" __global__ void __launch_bounds__(256) hook(int n, const int *tree, const Wide *edge, int *parent) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || tree[i] != i) return;
    if (edge[i] == ~Wide(0)) {
        parent[i] = i;
        return;
    }
    const int low = (int)(edge[i] / n), high = (int)(edge[i] % n);
    parent[i] = tree[low] == i ? tree[high] : tree[low];
}

// List the edges that hook a tree to another one, with the same threads. Two trees that lead to each other share one
// edge. The tree with the smaller number then stays a root, and adds no edge.
extern "C" __global__ void __launch_bounds__(256)
    keep_edges(int n, const int *tree, const Wide *edge, const Wide *best, int *parent, Wide *edges, Wide *places,
               Bits *count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || tree[i] != i || parent[i] == i) return;
    if (i < parent[i] && edge[i] == edge[parent[i]]) return;
    const Bits slot = atomicAdd(count, 1u);
    edges[slot] = edge[i], places[slot] = best[i];
}

// Update the number of each vertex's tree after the hooks, one thread per vertex. Of two trees that lead to each other,
// the smaller number counts.
extern "C" __global__ void __launch_bounds__(256) follow(int n, const int *parent, int *tree) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int root = tree[i];
    while (parent[root] != root && !(parent[parent[root]] == root && root < parent[root])) root = parent[root];
    tree[i] = root;
}

// Compute bottlenecks, one block of 256 threads per row of D (n, n). `worst` is (levels, n): level k has the worst rank
// of 2^k consecutive edges from each place on. The bottleneck between two vertices is the worst of the edges after the
// first vertex, up to and including the second.
extern "C" __global__ void __launch_bounds__(256)
    fill_bottlenecks(U *D, Index stride, int n, const U *worst, const int *position, U one, int largest) {
    const Index i = blockIdx.x;
    const int own = position[i];
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const int other = position[j], low = own < other ? own : other, high = own < other ? other : own;
        U entry = one;
        if (low != high) {
            const int level = 31 - __clz(high - low);
            const U first = worst[Index(level) * n + low + 1],
                    second = worst[Index(level) * n + high + 1 - (1 << level)];
            entry = entry_at(first < second ? second : first, largest);
        }
        D[i * stride + j] = entry;
    }
}
