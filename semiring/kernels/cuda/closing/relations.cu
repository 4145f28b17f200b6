// Packed truth values as the edges of a graph: degrees, edges as lists, sources that are peeled off, sweeps along edges
// and against them, and moved columns. Words of 32 bits along the rows, `stride` words from row to row.
//
// A vertex is a row and a column; loops are no edges. A set of vertices is a row of bits.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
typedef unsigned Bits;

// A block a row. degrees[row]: how many edges leave it; backward[0] becomes 1 where one leads to an earlier vertex.
extern "C" __global__ void __launch_bounds__(256)
    out_degrees(const Bits *A, long long stride, int words, unsigned *degrees, unsigned *backward) {
    const int row = blockIdx.x;
    const Bits *own = A + row * stride;
    unsigned count = 0, before = 0;
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        const Bits mine = w == row / 32 ? 1u << row % 32 : 0u, edges = own[w] & ~mine;
        count += __popc(edges);
        before |= w < row / 32 ? edges : edges & (mine ? mine - 1 : 0u);
    }
    if (count) atomicAdd(degrees + row, count);
    if (before) *backward = 1;
}

// A block a row. heads: of the edges of row i from starts[i] on, in any order; places: a copy of starts, which counts on;
// degrees: how many edges lead to each vertex, from 0.
extern "C" __global__ void __launch_bounds__(256)
    list_edges(const Bits *A, long long stride, int words, unsigned *places, int *heads, unsigned *degrees) {
    const int row = blockIdx.x;
    const Bits *own = A + row * stride;
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        Bits edges = own[w] & ~(w == row / 32 ? 1u << row % 32 : 0u);
        if (!edges) continue;
        unsigned place = atomicAdd(places + row, (unsigned)__popc(edges));
        for (; edges; edges &= edges - 1) {
            const int head = 32 * w + __ffs((int)edges) - 1;
            heads[place++] = head;
            atomicAdd(degrees + head, 1u);
        }
    }
}

// order: the vertices that no cycle reaches, those without remaining predecessors first; *count becomes their number. At
// most `rounds` rounds. One block; degrees count the remaining edges to each vertex.
extern "C" __global__ void __launch_bounds__(1024)
    peel(const unsigned *starts, const int *heads, unsigned *degrees, int *order, unsigned *count, int n, int rounds) {
    for (int v = threadIdx.x; v < n; v += blockDim.x) {
        if (!degrees[v]) order[atomicAdd(count, 1u)] = v;
    }
    unsigned begin = 0;
    for (int round = 0; round < rounds; ++round) {
        __syncthreads();
        const unsigned end = *(volatile unsigned *)count;
        __syncthreads();
        if (begin == end) return;
        for (unsigned i = begin + threadIdx.x; i < end; i += blockDim.x) {
            const int vertex = ((volatile int *)order)[i];
            for (unsigned e = starts[vertex]; e < starts[vertex + 1]; ++e) {
                if (atomicAdd(degrees + heads[e], 0u - 1u) == 1u) order[atomicAdd(count, 1u)] = heads[e];
            }
        }
        begin = end;
    }
}

// to |= the heads of all edges from the vertices `from`. A thread a word, `height` words of `from` a block.
extern "C" __global__ void __launch_bounds__(256)
    sweep_along(const Bits *A, long long stride, int words, const Bits *from, Bits *to, int height) {
    const int w = blockIdx.x * blockDim.x + threadIdx.x, most = ((int)blockIdx.y + 1) * height;
    const int stop = words < most ? words : most;
    if (w >= words) return;
    Bits found = 0;
    for (int group = blockIdx.y * height; group < stop; ++group) {
        for (Bits rows = from[group]; rows; rows &= rows - 1) {
            found |= A[(32ll * group + __ffs((int)rows) - 1) * stride + w];
        }
    }
    if (found) atomicOr(to + w, found);
}

// to |= those of the vertices `asked` from which an edge leads to a vertex of `from`. A block a row.
extern "C" __global__ void __launch_bounds__(256)
    sweep_against(const Bits *A, long long stride, int words, const Bits *from, const Bits *asked, Bits *to) {
    const int row = blockIdx.x;
    if (!(asked[row / 32] >> row % 32 & 1)) return;
    const Bits *own = A + row * stride;
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        if (!(from[w] && own[w] & from[w])) continue;
        atomicOr(to + row / 32, 1u << row % 32);
        return;
    }
}

struct alignas(16) Four {
    int place[4];
};
struct alignas(ROWS < 4 ? 4 * ROWS : 16) Group {  // the same word of all rows of a block: read at once
    Bits row[ROWS];
};

// Each row's column j <- its column order[j], for ROWS rows a block, which are kept in shared memory. order: as many as
// the words have bits, those behind the last column the place of a bit that is 0.
extern "C" __global__ void __launch_bounds__(512)
    move_columns(Bits *A, long long stride, int rows, int words, const int *order) {
    DYNAMIC_SHARED(pool);
    Group *kept = (Group *)pool;
    const int first = blockIdx.x * ROWS;
    for (int r = 0; r < ROWS; ++r) {
        for (int w = threadIdx.x; w < words; w += blockDim.x) {
            kept[w].row[r] = first + r < rows ? A[(first + r) * stride + w] : 0;
        }
    }
    __syncthreads();
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        Bits moved[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) moved[r] = 0;
#pragma unroll 2
        for (int quarter = 0; quarter < 8; ++quarter) {
            const Four from = ((const Four *)order)[8 * w + quarter];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const Group group = kept[from.place[i] / 32];
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    moved[r] |= (group.row[r] >> from.place[i] % 32 & 1u) << (4 * quarter + i);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (first + r < rows) A[(first + r) * stride + w] = moved[r];
        }
    }
}

// Each row that has a bit among the columns start .. stop - 1 gets all of them. A block a row.
extern "C" __global__ void __launch_bounds__(256) fill_columns(Bits *A, long long stride, int start, int stop) {
    __shared__ int any;
    Bits *own = A + blockIdx.x * stride;
    const int last = (stop - 1) / 32;
    if (threadIdx.x == 0) any = 0;
    __syncthreads();
    for (int write = 0; write < 2; ++write) {
        for (int w = start / 32 + threadIdx.x; w <= last; w += blockDim.x) {
            Bits mask = ~0u;
            if (w == start / 32) mask &= ~0u << start % 32;
            if (w == last) mask &= ~0u >> (31 - (stop - 1) % 32);
            if (write) {
                own[w] |= mask;
            } else if (own[w] & mask) {
                any = 1;
            }
        }
        __syncthreads();
        if (!any) return;
    }
}
