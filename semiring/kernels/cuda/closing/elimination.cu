// Sparse elimination, and the sweeps through its factor, level by level of the elimination tree. Supernodes at one
// depth do not depend on each other. The memory of a factor and the loops are those of
// `semiring.kernels.cpu.elimination.fronts`: each entry meets its candidates in the same order.
//
// X (n, r) holds r vectors as columns. Row v has the values of vertex v, and rows are `stride` elements apart. So
// adjacent threads read and write adjacent elements, and results need no permutation.
//
// An elimination tree has these arrays. supernode_of: the supernode of each place. parents, depth: the parent of each
// supernode (-1 for a root), and its distance from the root. pivot_starts: its first pivot. row_starts: where its rows
// begin. rows: the rows below it, as vertices. order: the vertex of each place.
//
// Compile it with OPPOSITE for y * x instead of x * y.
#include "semiring.cuh"

#define WIDE 4  // columns per thread
#define DEEP 4  // pivots per pass
#define MOST 160  // the most pivots of a front that these kernels reduce; see is_large in semiring.sparse.symbolic_factor

// The product of x and y in the order of the path.
#ifdef OPPOSITE
INLINE element times_in_order(element x, element y) { return times(y, x); }
#else
INLINE element times_in_order(element x, element y) { return times(x, y); }
#endif

// ------------------------------------------------------------------------------------------------------------ fronts

// Add the updates of their children to the fronts of some supernodes, one block each. Then eliminate the pivots of each
// front whose ``is_large`` flag is 0. ``children``: the children of supernode s from child_starts[s] on. ``spots``: the
// place of each row of a supernode in the front of its parent. ``update_starts``: where the update of each supernode
// begins, among those of its depth. ``work_starts``: where a block may store the panel before its update, among those
// of this depth. *status becomes the least place without a star.
extern "C" __global__ void __launch_bounds__(256)
    reduce(element *memory, const int *nodes, const int *pivot_starts, const long long *row_starts,
           const int *child_starts, const int *children, const int *spots, const long long *block_starts,
           const long long *right_starts, const long long *below_starts, int symmetric, const unsigned char *is_large,
           const element *child_updates, element *updates, const long long *update_starts, element *work,
           const long long *work_starts, unsigned *status) {
    __shared__ element row[MOST], column[MOST];
    const int node = nodes[blockIdx.x], first = pivot_starts[node], k = pivot_starts[node + 1] - first;
    const int m = (int)(row_starts[node + 1] - row_starts[node]), thread = threadIdx.x, threads = blockDim.x;
    const long long area = (long long)m * m, panel = (long long)k * m;
    element *S = memory + block_starts[node], *R = memory + right_starts[node], *T = memory + below_starts[node],
            *U = updates + update_starts[node];
    for (long long e = thread; e < area; e += threads) U[e] = ZERO;
    __syncthreads();
    for (int slot = child_starts[node]; slot < child_starts[node + 1]; ++slot) {
        const int child = children[slot], count = (int)(row_starts[child + 1] - row_starts[child]);
        const int *spot = spots + row_starts[child];
        const element *values = child_updates + update_starts[child];
        for (long long e = thread; e < (long long)count * count; e += threads) {
            const int i = (int)(e / count), j = (int)(e % count), x = spot[i], y = spot[j];
            if (symmetric && j < i) continue;
            const element value = values[e];
            if (x < k && y < k) {
                S[x * k + y] = plus(S[x * k + y], value);
                if (symmetric && i != j) S[y * k + x] = plus(S[y * k + x], value);
            } else if (x < k) {
                element *target = R + (long long)x * m + (y - k);
                *target = plus(*target, value);
            } else if (y < k) {
                element *target = T + (long long)y * m + (x - k);
                *target = plus(*target, value);
            } else {
                element *target = U + (long long)(x - k) * m + (y - k);
                *target = plus(*target, value);
            }
        }
        __syncthreads();
    }
    if (is_large[node]) return;
    for (int p = 0; p < k; ++p) {
        const element pivot = S[p * k + p];
        if (thread == 0 && diverges(pivot)) atomicMin(status, (unsigned)(first + p));
        const element pivot_star = star(pivot);
        for (int c = thread; c < k; c += threads) {
            row[c] = c == p ? pivot_star : times(pivot_star, S[p * k + c]);
            column[c] = S[c * k + p];
        }
        __syncthreads();
        for (int e = thread; e < k * k; e += threads) {
            const int i = e / k, c = e % k;
            if (i == p) {
                S[e] = row[c];
            } else if (c == p) {
                S[e] = times(column[i], pivot_star);
            } else {
                S[e] = plus(S[e], times(column[i], row[c]));
            }
        }
        __syncthreads();
    }
    element *old_panel = work + work_starts[node];
    for (int side = 0; side < (symmetric ? 1 : 2); ++side) {
        element *own = side ? T : R;
        for (long long e = thread; e < panel; e += threads) old_panel[e] = own[e];
        __syncthreads();
        for (long long e = thread; e < panel; e += threads) {
            const int i = (int)(e / m), c = (int)(e % m);
            element sum = ZERO;
            for (int a = 0; a < k; ++a) {
                const element value = old_panel[(long long)a * m + c];
                sum = plus(sum, side ? times(value, S[a * k + i]) : times(S[i * k + a], value));
            }
            own[e] = sum;
        }
        __syncthreads();
    }
    for (long long e = thread; e < area; e += threads) {
        const int i = (int)(e / m), j = (int)(e % m);
        if (symmetric && j < i) continue;
        element sum = U[e];
        for (int a = 0; a < k; ++a) sum = plus(sum, times(old_panel[(long long)a * m + i], R[(long long)a * m + j]));
        U[e] = sum;
    }
}

// ------------------------------------------------------------------------------------------------------------ sweeps

// The first sweep for unit vectors, one thread per column. Column c becomes the paths from the vertex at places[c] to
// the vertices above it in the tree, including the stars of their blocks. X is not written at other vertices.
// ``up_panels``: where the panel of each supernode begins. ``work`` is (the most pivots of a supernode, r).
extern "C" __global__ void __launch_bounds__(128)
    ascend(element *X, long long stride, int r, const int *places, const int *supernode_of, const int *parents,
           const int *depth, int levels, const int *pivot_starts, const long long *row_starts, const int *rows,
           const int *order, const element *memory, const long long *blocks, const long long *up_panels,
           int is_transposed, element *work) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= r) return;
    int s = supernode_of[places[c]];
    for (int ancestor = s; ancestor >= 0; ancestor = parents[ancestor]) {
        for (int p = pivot_starts[ancestor]; p < pivot_starts[ancestor + 1]; ++p) X[order[p] * stride + c] = ZERO;
    }
    X[order[places[c]] * stride + c] = ONE;
    for (int level = levels - 1; level >= 0; --level) {  // threads in the same supernode process it together
        if (s < 0 || depth[s] != level) continue;
        const int first = pivot_starts[s], k = pivot_starts[s + 1] - first,
                  m = (int)(row_starts[s + 1] - row_starts[s]);
        const int *row_vertices = rows + row_starts[s];
        const element *R = memory + up_panels[s], *S = memory + blocks[s];
        for (int i = 0; i < k; ++i) work[(long long)i * r + c] = X[order[first + i] * stride + c];
        for (int j = 0; j < m; ++j) {
            element *target = X + row_vertices[j] * stride + c;
            element sum = *target;
#pragma unroll 4
            for (int i = 0; i < k; ++i)
                sum = plus(sum, times_in_order(work[(long long)i * r + c], R[(long long)i * m + j]));
            *target = sum;
        }
        for (int j = 0; j < k; ++j) {
            element sum = ZERO;
#pragma unroll 4
            for (int i = 0; i < k; ++i)
                sum = plus(sum, times_in_order(work[(long long)i * r + c], S[is_transposed ? j * k + i : i * k + j]));
            X[order[first + j] * stride + c] = sum;
        }
        s = parents[s];
    }
}

// The first sweep for arbitrary vectors. A launch processes the supernodes at one depth, after all deeper supernodes. A
// block takes one of the nodes and 128 * WIDE columns, with `groups` blocks per node. ``ends``: where the list of each
// place begins. ``lists`` and ``positions``: the supernodes that have the place among their rows, and which of their
// rows it is.
extern "C" __global__ void __launch_bounds__(128)
    gather(element *X, long long stride, int r, const int *nodes, int groups, const int *pivot_starts,
           const long long *row_starts, const int *order, const long long *ends, const int *lists, const int *positions,
           const element *memory, const long long *up_panels) {
    const int node = nodes[blockIdx.x / groups];
    const int first_column = (int)(blockIdx.x % groups) * 128 * WIDE + threadIdx.x;
    for (int place = pivot_starts[node]; place < pivot_starts[node + 1]; ++place) {
        for (int v = 0; v < WIDE; ++v) {
            const int c = first_column + v * 128;
            if (c >= r) break;
            element *target = X + order[place] * stride + c;
            element sum = *target;
            for (long long e = ends[place]; e < ends[place + 1]; ++e) {
                const int s = lists[e], m = (int)(row_starts[s + 1] - row_starts[s]);
                const element *R = memory + up_panels[s] + positions[e];
                for (int p = pivot_starts[s]; p < pivot_starts[s + 1]; ++p, R += m)
                    sum = plus(sum, times_in_order(X[order[p] * stride + c], *R));
            }
            *target = sum;
        }
    }
}

// Y <- X times the stars of the blocks of all supernodes, with rows by vertex and the grid of `gather`.
extern "C" __global__ void __launch_bounds__(128)
    spread(const element *X, element *Y, long long stride, int r, const int *nodes, int groups, const int *pivot_starts,
           const int *order, const element *memory, const long long *blocks, int is_transposed) {
    const int node = nodes[blockIdx.x / groups], first = pivot_starts[node], k = pivot_starts[node + 1] - first;
    const int first_column = (int)(blockIdx.x % groups) * 128 * WIDE + threadIdx.x;
    const element *S = memory + blocks[node];
    for (int j = 0; j < k; ++j) {
        for (int v = 0; v < WIDE; ++v) {
            const int c = first_column + v * 128;
            if (c >= r) break;
            element sum = ZERO;
            for (int i = 0; i < k; ++i) {
                sum = plus(sum,
                           times_in_order(X[order[first + i] * stride + c], S[is_transposed ? j * k + i : i * k + j]));
            }
            Y[order[first + j] * stride + c] = sum;
        }
    }
}

// The second sweep, for the supernodes at one depth, after all supernodes above them. The grid is that of `gather`.
// ``down_panels``: where the panel of each supernode begins. ``places``: null, or the place where each column began.
// Rows that do not lie above that place were not written, and count as ZERO. ``lows``: the first place of the subtree
// of each supernode.
extern "C" __global__ void __launch_bounds__(128)
    descend(element *X, long long stride, int r, const int *nodes, int groups, const int *pivot_starts,
            const long long *row_starts, const int *rows, const int *order, const element *memory,
            const long long *down_panels, const int *places, const int *lows) {
    const int node = nodes[blockIdx.x / groups], first = pivot_starts[node], end = pivot_starts[node + 1],
              k = end - first;
    const int m = (int)(row_starts[node + 1] - row_starts[node]), low = lows[node];
    const int first_column = (int)(blockIdx.x % groups) * 128 * WIDE + threadIdx.x;
    const int *row_vertices = rows + row_starts[node];
    const element *T = memory + down_panels[node];
    bool is_written[WIDE], is_inside[WIDE];
#pragma unroll
    for (int v = 0; v < WIDE; ++v) {
        const int c = first_column + v * 128;
        is_inside[v] = c < r;
        const int place = !is_inside[v] ? -1 : places ? places[c] : low;
        is_written[v] = place >= low && place < end;
    }
    for (int p = 0; p < k; p += DEEP) {
        element sum[DEEP][WIDE];
#pragma unroll
        for (int q = 0; q < DEEP; ++q) {
            const element *own = X + order[first + (p + q < k ? p + q : k - 1)] * stride + first_column;
#pragma unroll
            for (int v = 0; v < WIDE; ++v) sum[q][v] = is_written[v] ? own[v * 128] : ZERO;
        }
#pragma unroll 2
        for (int j = 0; j < m; ++j) {
            const element *line = X + row_vertices[j] * stride + first_column;
            element x[WIDE];
#pragma unroll
            for (int v = 0; v < WIDE; ++v) x[v] = is_inside[v] ? line[v * 128] : ZERO;
#pragma unroll
            for (int q = 0; q < DEEP; ++q) {
                const element factor = T[(long long)(p + q < k ? p + q : k - 1) * m + j];
#pragma unroll
                for (int v = 0; v < WIDE; ++v) sum[q][v] = plus(sum[q][v], times_in_order(x[v], factor));
            }
        }
#pragma unroll
        for (int q = 0; q < DEEP; ++q) {
            if (p + q >= k) break;
            element *own = X + order[first + p + q] * stride + first_column;
#pragma unroll
            for (int v = 0; v < WIDE; ++v) {
                if (is_inside[v]) own[v * 128] = sum[q][v];
            }
        }
    }
}
