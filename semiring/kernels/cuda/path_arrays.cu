// Arrays of paths from predecessors (count, p, n): row r of all count·p rows holds the paths from sources[r % p]. One
// thread follows each path.

// ``counts`` (count, p, n): the number of vertices of each path, 0 without a path, and -1 if the predecessors lead in a
// cycle or to a number that is no vertex.
extern "C" __global__ void __launch_bounds__(256)
    count_vertices(const int *pred, const int *sources, int p, int n, long long paths, int *counts) {
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= paths) return;
    const long long r = place / n;
    const int *row = pred + r * n, source = sources[r % p];
    int v = (int)(place - r * n), count = 1;
    while (v != source) {
        const int before = row[v];
        if (before < 0) count = 0;
        if (before >= n || count >= n) count = -1;
        if (count <= 0) break;
        v = before;
        ++count;
    }
    counts[place] = count;
}

// ``out`` (count, p, q, length): the vertices of the paths to the targets (q), then -1. ``counts`` (count, p, q).
extern "C" __global__ void __launch_bounds__(256)
    write_paths(const int *pred, const int *targets, const int *counts, int n, int q, long long paths, int length,
                int *out) {
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= paths) return;
    const long long r = place / q;
    const int *row = pred + r * n, count = counts[place];
    int v = targets[place - r * q], *path = out + place * length;
    for (int k = length - 1; k >= count; --k) path[k] = -1;
    for (int k = count - 1; k >= 0; --k) {
        path[k] = v;
        if (k) v = row[v];
    }
}
