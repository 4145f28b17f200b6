// Shortest paths from many vertices of a sparse graph, and the sums of their dependencies, by Brandes's algorithm.
//
// The sources form groups of 32. Arrays of a group are (n, 32): the 32 threads of a warp process one vertex, and read
// and write adjacent elements. Arrays of a batch are (groups, n, 32). The graph is stored by tails (`starts`, `heads`,
// `weights`) and by heads (`first`, `tails`, `weights_in`). No thread adds to a sum of another one, so every sum has
// one order.
//
// relax pulls: a vertex takes the least offer of its edges, the number of shortest paths that attain it, and the number
// of edges of the longest of them, its *level*. It is launched until nothing changes. Only vertices with a changed
// neighbour, the frontier, are processed. A vertex reads values that other vertices write in the same launch. It is
// processed again if it read an old value, so the final values do not depend on the order of the threads. add_level
// processes the vertices of one level, from the highest level down: all edges of shortest paths lead to higher levels.
//
// Length: the type of lengths and weights; NO_PATH is its largest value. HOPS: every edge counts 1, and the level of a
// vertex is its length. ONLY_LENGTHS: no paths are counted. EXPONENTS: a count is counts · 2^exponents, with counts
// from 1/2 to 1.
//
// An edge of weight 0 leads from the lower to the higher vertex of an order without cycles. If a sum absorbs a weight
// above 0, the order of the two vertices is not known: the edge is not counted, and a flag is set.
//
// Source: A. McLaughlin, D. A. Bader, "Scalable and high performance betweenness centrality on the GPU", SC 2014, for
// frontiers of many sources at a time. There, a block of threads processes one source.
typedef long long Index;
#define LANES 32
#define LARGEST_COUNT 1e290  // of paths: beyond it (1 + dependency) / count would lose digits

#ifdef HOPS
#define WEIGHT(weights, e) 1
#define LEVELS(levels, lengths) lengths
#else
#define WEIGHT(weights, e) weights[e]
#define LEVELS(levels, lengths) levels
#endif

// One block of 32 threads per group. ``sources``: (groups, 32), -1 for none. The first frontier is that of step 1.
extern "C" __global__ void __launch_bounds__(32)
    begin(int n, const Index *starts, const int *heads, const int *sources, int *steps, Length *lengths, double *counts,
          int *exponents) {
    const Index group = (Index)blockIdx.x * n;
    const int source = sources[blockIdx.x * LANES + threadIdx.x];
    if (source < 0) return;
    const Index at = (group + source) * LANES + threadIdx.x;
    lengths[at] = 0;
#ifndef ONLY_LENGTHS
    counts[at] = 1;
#ifdef EXPONENTS
    counts[at] = 0.5, exponents[at] = 1;
#endif
#endif
    for (Index e = starts[source]; e < starts[source + 1]; ++e) steps[group + heads[e]] = 1;
}

// A block of 256 threads processes 8 vertices of one group (y). ``steps`` (groups, n): the last step of whose frontier
// a vertex is. ``latest``: the last step that changed a value.
extern "C" __global__ void __launch_bounds__(256)
    relax(int n, const Index *starts, const int *heads, const Index *first, const int *tails, const Length *weights_in,
          const int *sources, int *steps, Length *lengths, double *counts, int *exponents, int *levels, int step,
          int *latest) {
    const int v = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const Index group = (Index)blockIdx.y * n;
    if (v >= n || steps[group + v] < step || sources[blockIdx.y * LANES + lane] == v) return;
    Length best = NO_PATH;
    double count = 0;
    int level = 0, exponent = 0;
    const Index last = first[v + 1];
    for (Index e = first[v]; e < last; ++e) {
        const Index from = (group + tails[e]) * LANES + lane;
        const Length length = lengths[from];
        if (length == NO_PATH || tails[e] == v) continue;
        const Length weight = WEIGHT(weights_in, e), offer = length + weight;
        if (offer < best) best = offer, count = 0, level = 0, exponent = 0;
#ifndef ONLY_LENGTHS
        if (offer != best || (offer == length && weight > 0)) continue;
#ifndef HOPS
        const int above = levels[from] + 1;
        level = above > level ? above : level;
#endif
#ifdef EXPONENTS
        const double more = counts[from];
        const int difference = exponents[from] - exponent;
        if (count == 0 || difference > 1100) {
            count = more, exponent = exponents[from];
        } else if (difference > 0) {
            count = ldexp(count, -difference) + more, exponent = exponents[from];
        } else if (difference > -1100) {
            count += ldexp(more, difference);
        }
#else
        count += counts[from];
#endif
#endif
    }
    const Index at = (group + v) * LANES + lane;
    bool is_changed = lengths[at] != best;
    if (is_changed) lengths[at] = best;
#ifndef ONLY_LENGTHS
#ifdef EXPONENTS
    int shift;
    count = frexp(count, &shift), exponent += shift;
    if (exponents[at] != exponent) exponents[at] = exponent, is_changed = true;
#endif
    if (counts[at] != count) counts[at] = count, is_changed = true;
#ifndef HOPS
    if (levels[at] != level) levels[at] = level, is_changed = true;
#endif
#endif
    if (!is_changed) return;
    *latest = step;
    for (Index e = starts[v]; e < starts[v + 1]; ++e) steps[group + heads[e]] = step + 1;
}

// The share of the shortest paths through v that go on to u, for a tight edge v → u, times 1 + the dependency of u.
__device__ __forceinline__ double share_of(Index v, Index u, const double *counts, const int *exponents,
                                           const double *dependencies) {
    const double ratio = counts[v] / counts[u];
#ifdef EXPONENTS
    const int difference = exponents[v] - exponents[u];
    return ldexp(ratio, difference < -1100 ? -1100 : difference) * (1 + dependencies[u]);
#else
    return ratio * (1 + dependencies[u]);
#endif
}

// Write the dependencies of the vertices of one level. The grid is that of relax. ``flags`` (2,): whether a count is too
// large, and whether a sum absorbs a weight.
extern "C" __global__ void __launch_bounds__(256)
    add_level(int n, const Index *starts, const int *heads, const Length *weights, const Length *lengths,
              const double *counts, const int *exponents, const int *levels, int level, double *dependencies,
              int *flags) {
    const int v = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const Index group = (Index)blockIdx.y * n, at = (group + v) * LANES + lane;
    if (v >= n || LEVELS(levels, lengths)[at] != level) return;
    const Length length = lengths[at];
    if (length == NO_PATH) return;
#ifndef EXPONENTS
    if (!(counts[at] < LARGEST_COUNT)) flags[0] = 1;
#endif
    double dependency = 0;
    const Index last = starts[v + 1];
    for (Index e = starts[v]; e < last; ++e) {
        const int u = heads[e];
        const Index to = (group + u) * LANES + lane;
        const Length weight = WEIGHT(weights, e), offer = length + weight;
        if (u == v || lengths[to] != offer) continue;
        if (offer == length && weight > 0) {
            flags[1] = 1;
        } else {
            dependency += share_of(at, to, counts, exponents, dependencies);
        }
    }
    dependencies[at] = dependency;
}

// Add the dependencies of all groups, in their order, to ``sums`` (n, 32). With endpoints, a path passes through its
// ends too. ``reached`` (groups, 32): the number of vertices that a source reaches.
extern "C" __global__ void __launch_bounds__(256)
    add_vertices(int n, int groups, const int *sources, const Length *lengths, const double *dependencies,
                 const Index *reached, int has_endpoints, double *sums) {
    const Index at = (Index)blockIdx.x * blockDim.x + threadIdx.x, size = (Index)n * LANES;
    if (at >= size) return;
    const int lane = at % LANES;
    double sum = sums[at];
    for (int g = 0; g < groups; ++g) {
        const Index place = g * size + at;
        if (lengths[place] == NO_PATH) continue;
        const int which = g * LANES + lane;
        if (sources[which] != at / LANES) {
            sum += dependencies[place] + has_endpoints;
        } else if (has_endpoints) {
            sum += double(reached[which] - 1);
        }
    }
    sums[at] = sum;
}

// Add the dependencies of all groups, in their order, to ``sums`` (m, 32), one warp for each edge.
extern "C" __global__ void __launch_bounds__(256)
    add_edges(int n, int groups, Index m, const int *edge_tails, const int *heads, const Length *weights,
              const Length *lengths, const double *counts, const int *exponents, const double *dependencies,
              double *sums) {
    const Index at = (Index)blockIdx.x * blockDim.x + threadIdx.x, e = at / LANES;
    if (e >= m || edge_tails[e] == heads[e]) return;
    const int lane = at % LANES;
    double sum = sums[at];
    for (int g = 0; g < groups; ++g) {
        const Index group = (Index)g * n, v = (group + edge_tails[e]) * LANES + lane,
                    u = (group + heads[e]) * LANES + lane;
        const Length length = lengths[v], weight = WEIGHT(weights, e);
        if (length != NO_PATH && lengths[u] == length + weight)
            sum += share_of(v, u, counts, exponents, dependencies);
    }
    sums[at] = sum;
}
