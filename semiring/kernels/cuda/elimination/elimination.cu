// A sparse elimination and the sweeps through its factor, level by level of the elimination tree: supernodes at one depth
// do not depend on each other. The memory of a factor is that of `semiring.kernels.cpu.elimination.numeric`,
// whose loops these are: each entry meets its candidates in the same order.
//
// X (n, r) holds r vectors side by side, row v the values of vertex v, `stride` elements from row to row, so that
// threads side by side read and write side by side, and results need not be put into order.
//
// A tree: of place -> supernode; above, depth: of each supernode, its parent (-1) and its distance from the root; firsts:
// its first pivot; begins: where its rows begin; rows: those below, as vertices; order: the vertex of each place.
//
// Compiled with OPPOSITE for y * x in the place of x * y.
#include "semiring.cuh"

#define WIDE 4  // columns of a thread
#define DEEP 4  // pivots at a time
#define MOST 160  // pivots of a front that is reduced here; see is_large in semiring.sparse.symbolic

#ifdef OPPOSITE
INLINE element then(element x, element y) { return times(y, x); }
#else
INLINE element then(element x, element y) { return times(x, y); }
#endif

// ------------------------------------------------------------------------------------------------------------ fronts

// Add the updates of their children to the fronts of some supernodes, a block each, and eliminate their pivots, but for
// those that are `large`. kids: the children of supernode s from starts[s] on. spots: where in the front of its parent
// each row of a supernode lies. at: where the update of each supernode begins, among those of its depth; spare: where
// among those of this depth a block may keep an open panel. The least place without a star goes to *status.
extern "C" __global__ void __launch_bounds__(256)
    reduce(element *memory, const int *nodes, const int *firsts, const long long *begins, const int *starts,
           const int *kids, const int *spots, const long long *blocks, const long long *right, const long long *below,
           int symmetric, const unsigned char *large, const element *children, element *updates, const long long *at,
           element *work, const long long *spare, unsigned *status) {
    __shared__ element row[MOST], column[MOST];
    const int node = nodes[blockIdx.x], first = firsts[node], k = firsts[node + 1] - first;
    const int m = (int)(begins[node + 1] - begins[node]), me = threadIdx.x, all = blockDim.x;
    const long long area = (long long)m * m, panel = (long long)k * m;
    element *S = memory + blocks[node], *R = memory + right[node], *T = memory + below[node], *U = updates + at[node];
    for (long long e = me; e < area; e += all) U[e] = ZERO;
    __syncthreads();
    for (int kid = starts[node]; kid < starts[node + 1]; ++kid) {
        const int child = kids[kid], count = (int)(begins[child + 1] - begins[child]);
        const int *spot = spots + begins[child];
        const element *values = children + at[child];
        for (long long e = me; e < (long long)count * count; e += all) {
            const int i = (int)(e / count), j = (int)(e % count), x = spot[i], y = spot[j];
            if (symmetric && j < i) continue;
            const element value = values[e];
            if (x < k && y < k) {
                S[x * k + y] = plus(S[x * k + y], value);
                if (symmetric && i != j) S[y * k + x] = plus(S[y * k + x], value);
            } else if (x < k) {
                element *to = R + (long long)x * m + (y - k);
                *to = plus(*to, value);
            } else if (y < k) {
                element *to = T + (long long)y * m + (x - k);
                *to = plus(*to, value);
            } else {
                element *to = U + (long long)(x - k) * m + (y - k);
                *to = plus(*to, value);
            }
        }
        __syncthreads();
    }
    if (large[node]) return;
    for (int p = 0; p < k; ++p) {
        const element pivot = S[p * k + p];
        if (me == 0 && diverges(pivot)) atomicMin(status, (unsigned)(first + p));
        const element closed = star(pivot);
        for (int c = me; c < k; c += all) {
            row[c] = c == p ? closed : times(closed, S[p * k + c]);
            column[c] = S[c * k + p];
        }
        __syncthreads();
        for (int e = me; e < k * k; e += all) {
            const int i = e / k, c = e % k;
            if (i == p) {
                S[e] = row[c];
            } else if (c == p) {
                S[e] = times(column[i], closed);
            } else {
                S[e] = plus(S[e], times(column[i], row[c]));
            }
        }
        __syncthreads();
    }
    element *open = work + spare[node];
    for (int side = 0; side < (symmetric ? 1 : 2); ++side) {
        element *own = side ? T : R;
        for (long long e = me; e < panel; e += all) open[e] = own[e];
        __syncthreads();
        for (long long e = me; e < panel; e += all) {
            const int i = (int)(e / m), c = (int)(e % m);
            element sum = ZERO;
            for (int a = 0; a < k; ++a) {
                const element value = open[(long long)a * m + c];
                sum = plus(sum, side ? times(value, S[a * k + i]) : times(S[i * k + a], value));
            }
            own[e] = sum;
        }
        __syncthreads();
    }
    for (long long e = me; e < area; e += all) {
        const int i = (int)(e / m), j = (int)(e % m);
        if (symmetric && j < i) continue;
        element sum = U[e];
        for (int a = 0; a < k; ++a) sum = plus(sum, times(open[(long long)a * m + i], R[(long long)a * m + j]));
        U[e] = sum;
    }
}

// ------------------------------------------------------------------------------------------------------------ sweeps

// The first sweep of unit vectors, a thread a column: column c becomes what leads from the vertex at places[c] to those
// above it in the tree, and over the stars of their blocks. Of other vertices X is not written. towards: where the panel
// of each supernode begins. work (the most pivots of a supernode, r).
extern "C" __global__ void __launch_bounds__(128)
    ascend(element *X, long long stride, int r, const int *places, const int *of, const int *above, const int *depth,
           int levels, const int *firsts, const long long *begins, const int *rows, const int *order,
           const element *memory, const long long *blocks, const long long *towards, int turned, element *work) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= r) return;
    int s = of[places[c]];
    for (int up = s; up >= 0; up = above[up]) {
        for (int p = firsts[up]; p < firsts[up + 1]; ++p) X[order[p] * stride + c] = ZERO;
    }
    X[order[places[c]] * stride + c] = ONE;
    for (int level = levels - 1; level >= 0; --level) {  // threads that are in one supernode are there together
        if (s < 0 || depth[s] != level) continue;
        const int first = firsts[s], k = firsts[s + 1] - first, m = (int)(begins[s + 1] - begins[s]);
        const int *below = rows + begins[s];
        const element *R = memory + towards[s], *S = memory + blocks[s];
        for (int i = 0; i < k; ++i) work[(long long)i * r + c] = X[order[first + i] * stride + c];
        for (int j = 0; j < m; ++j) {
            element *to = X + below[j] * stride + c;
            element sum = *to;
#pragma unroll 4
            for (int i = 0; i < k; ++i) sum = plus(sum, then(work[(long long)i * r + c], R[(long long)i * m + j]));
            *to = sum;
        }
        for (int j = 0; j < k; ++j) {
            element sum = ZERO;
#pragma unroll 4
            for (int i = 0; i < k; ++i) sum = plus(sum, then(work[(long long)i * r + c], S[turned ? j * k + i : i * k + j]));
            X[order[first + j] * stride + c] = sum;
        }
        s = above[s];
    }
}

// The first sweep of any vectors, for supernodes at one depth when all deeper ones are done: a block takes one of the
// nodes and 128 * WIDE columns, `groups` blocks a node. ends: where the supernodes begin in lists and spots that have
// each place among their rows, and as which of them.
extern "C" __global__ void __launch_bounds__(128)
    gather(element *X, long long stride, int r, const int *nodes, int groups, const int *firsts, const long long *begins,
           const int *order, const long long *ends, const int *lists, const int *positions, const element *memory,
           const long long *towards) {
    const int node = nodes[blockIdx.x / groups];
    const int left = (int)(blockIdx.x % groups) * 128 * WIDE + threadIdx.x;
    for (int place = firsts[node]; place < firsts[node + 1]; ++place) {
        for (int v = 0; v < WIDE; ++v) {
            const int c = left + v * 128;
            if (c >= r) break;
            element *to = X + order[place] * stride + c;
            element sum = *to;
            for (long long e = ends[place]; e < ends[place + 1]; ++e) {
                const int s = lists[e], m = (int)(begins[s + 1] - begins[s]);
                const element *R = memory + towards[s] + positions[e];
                for (int p = firsts[s]; p < firsts[s + 1]; ++p, R += m) sum = plus(sum, then(X[order[p] * stride + c], *R));
            }
            *to = sum;
        }
    }
}

// Y <- X over the stars of the blocks of all supernodes, rows by vertex; grid as above.
extern "C" __global__ void __launch_bounds__(128)
    spread(const element *X, element *Y, long long stride, int r, const int *nodes, int groups, const int *firsts,
           const int *order, const element *memory, const long long *blocks, int turned) {
    const int node = nodes[blockIdx.x / groups], first = firsts[node], k = firsts[node + 1] - first;
    const int left = (int)(blockIdx.x % groups) * 128 * WIDE + threadIdx.x;
    const element *S = memory + blocks[node];
    for (int j = 0; j < k; ++j) {
        for (int v = 0; v < WIDE; ++v) {
            const int c = left + v * 128;
            if (c >= r) break;
            element sum = ZERO;
            for (int i = 0; i < k; ++i) {
                sum = plus(sum, then(X[order[first + i] * stride + c], S[turned ? j * k + i : i * k + j]));
            }
            Y[order[first + j] * stride + c] = sum;
        }
    }
}

// The second sweep, for supernodes at one depth when all above are done; grid as above. back: where the panel of each
// supernode begins. places: null, or the place where each column began: what does not lie above it was not written, and
// is ZERO; lows: the first place of the subtree of each supernode.
extern "C" __global__ void __launch_bounds__(128)
    descend(element *X, long long stride, int r, const int *nodes, int groups, const int *firsts, const long long *begins,
            const int *rows, const int *order, const element *memory, const long long *back, const int *places,
            const int *lows) {
    const int node = nodes[blockIdx.x / groups], first = firsts[node], end = firsts[node + 1], k = end - first;
    const int m = (int)(begins[node + 1] - begins[node]), low = lows[node];
    const int left = (int)(blockIdx.x % groups) * 128 * WIDE + threadIdx.x;
    const int *above = rows + begins[node];
    const element *T = memory + back[node];
    bool written[WIDE], there[WIDE];
#pragma unroll
    for (int v = 0; v < WIDE; ++v) {
        const int c = left + v * 128;
        there[v] = c < r;
        const int place = !there[v] ? -1 : places ? places[c] : low;
        written[v] = place >= low && place < end;
    }
    for (int p = 0; p < k; p += DEEP) {
        element sum[DEEP][WIDE];
#pragma unroll
        for (int q = 0; q < DEEP; ++q) {
            const element *own = X + order[first + (p + q < k ? p + q : k - 1)] * stride + left;
#pragma unroll
            for (int v = 0; v < WIDE; ++v) sum[q][v] = written[v] ? own[v * 128] : ZERO;
        }
#pragma unroll 2
        for (int j = 0; j < m; ++j) {
            const element *line = X + above[j] * stride + left;
            element x[WIDE];
#pragma unroll
            for (int v = 0; v < WIDE; ++v) x[v] = there[v] ? line[v * 128] : ZERO;
#pragma unroll
            for (int q = 0; q < DEEP; ++q) {
                const element factor = T[(long long)(p + q < k ? p + q : k - 1) * m + j];
#pragma unroll
                for (int v = 0; v < WIDE; ++v) sum[q][v] = plus(sum[q][v], then(x[v], factor));
            }
        }
#pragma unroll
        for (int q = 0; q < DEEP; ++q) {
            if (p + q >= k) break;
            element *own = X + order[first + p + q] * stride + left;
#pragma unroll
            for (int v = 0; v < WIDE; ++v) {
                if (there[v]) own[v * 128] = sum[q][v];
            }
        }
    }
}
