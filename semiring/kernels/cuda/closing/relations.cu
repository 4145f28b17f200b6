// Packed truth values as the edges of a graph: degrees, lists of edges, topological peeling, sweeps along and against
// edges, and permuted columns. Words of 32 bits lie along the rows, with `stride` words from row to row.
//
// A vertex is a row and a column. A loop does not count as an edge. A set of vertices is a row of bits.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
typedef unsigned Bits;

// Count edges, one block per row. degrees[row]: how many edges leave the row's vertex. backward[0] becomes 1 if an edge
// leads to an earlier vertex.
extern "C" __global__ void __launch_bounds__(256)
    out_degrees(const Bits *A, long long stride, int words, unsigned *degrees, unsigned *backward) {
    const int row = blockIdx.x;
    const Bits *row_words = A + row * stride;
    unsigned count = 0, backward_edges = 0;
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        const Bits loop = w == row / 32 ? 1u << row % 32 : 0u, edges = row_words[w] & ~loop;
        count += __popc(edges);
        backward_edges |= w < row / 32 ? edges : edges & (loop ? loop - 1 : 0u);
    }
    if (count) atomicAdd(degrees + row, count);
    if (backward_edges) *backward = 1;
}

// List edges, one block per row. ``heads``: the heads of the edges of row i from starts[i] on, in any order.
// ``places``: a copy of starts, which the kernel advances. ``degrees``: how many edges lead to each vertex, 0 before.
extern "C" __global__ void __launch_bounds__(256)
    list_edges(const Bits *A, long long stride, int words, unsigned *places, int *heads, unsigned *degrees) {
    const int row = blockIdx.x;
    const Bits *row_words = A + row * stride;
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        Bits edges = row_words[w] & ~(w == row / 32 ? 1u << row % 32 : 0u);
        if (!edges) continue;
        unsigned place = atomicAdd(places + row, (unsigned)__popc(edges));
        for (; edges; edges &= edges - 1) {
            const int head = 32 * w + __ffs((int)edges) - 1;
            heads[place++] = head;
            atomicAdd(degrees + head, 1u);
        }
    }
}

// ``order``: the vertices that no cycle reaches, each after all of its predecessors. *count becomes their number. The
// kernel stops after `rounds` rounds. It is one block. ``degrees`` counts the remaining edges to each vertex.
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

// target |= the heads of all edges from the vertices `tails`. There is one thread per word, and each block takes
// `height` words of `tails`.
extern "C" __global__ void __launch_bounds__(256)
    sweep_along(const Bits *A, long long stride, int words, const Bits *tails, Bits *target, int height) {
    const int w = blockIdx.x * blockDim.x + threadIdx.x, most = ((int)blockIdx.y + 1) * height;
    const int stop = words < most ? words : most;
    if (w >= words) return;
    Bits heads = 0;
    for (int group = blockIdx.y * height; group < stop; ++group) {
        for (Bits rows = tails[group]; rows; rows &= rows - 1) {
            heads |= A[(32ll * group + __ffs((int)rows) - 1) * stride + w];
        }
    }
    if (heads) atomicOr(target + w, heads);
}

// target |= the vertices of `candidates` from which an edge leads to a vertex of `heads`. There is one block per row.
extern "C" __global__ void __launch_bounds__(256)
    sweep_against(const Bits *A, long long stride, int words, const Bits *heads, const Bits *candidates, Bits *target) {
    const int row = blockIdx.x;
    if (!(candidates[row / 32] >> row % 32 & 1)) return;
    const Bits *row_words = A + row * stride;
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        if (!(heads[w] && row_words[w] & heads[w])) continue;
        atomicOr(target + row / 32, 1u << row % 32);
        return;
    }
}

struct alignas(16) Four {
    int place[4];
};
struct alignas(ROWS < 4 ? 4 * ROWS : 16) Group {  // the same word of all rows of a block, for one access
    Bits row[ROWS];
};

// Replace column j of each row by column order[j]. A block holds ROWS rows in shared memory. ``order`` has one entry
// for each bit of the words. Entries behind the last column are the place of a bit that is 0.
extern "C" __global__ void __launch_bounds__(512)
    move_columns(Bits *A, long long stride, int rows, int words, const int *order) {
    DYNAMIC_SHARED(pool);
    Group *source = (Group *)pool;
    const int first = blockIdx.x * ROWS;
    for (int r = 0; r < ROWS; ++r) {
        for (int w = threadIdx.x; w < words; w += blockDim.x) {
            source[w].row[r] = first + r < rows ? A[(first + r) * stride + w] : 0;
        }
    }
    __syncthreads();
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
        Bits permuted[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) permuted[r] = 0;
#pragma unroll 2
        for (int quarter = 0; quarter < 8; ++quarter) {
            const Four places = ((const Four *)order)[8 * w + quarter];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const Group group = source[places.place[i] / 32];
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    permuted[r] |= (group.row[r] >> places.place[i] % 32 & 1u) << (4 * quarter + i);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (first + r < rows) A[(first + r) * stride + w] = permuted[r];
        }
    }
}

// Set all columns start .. stop - 1 in each row that has a bit among them. There is one block per row.
extern "C" __global__ void __launch_bounds__(256) fill_columns(Bits *A, long long stride, int start, int stop) {
    __shared__ int has_bit;
    Bits *row_words = A + blockIdx.x * stride;
    const int last = (stop - 1) / 32;
    if (threadIdx.x == 0) has_bit = 0;
    __syncthreads();
    for (int write = 0; write < 2; ++write) {
        for (int w = start / 32 + threadIdx.x; w <= last; w += blockDim.x) {
            Bits mask = ~0u;
            if (w == start / 32) mask &= ~0u << start % 32;
            if (w == last) mask &= ~0u >> (31 - (stop - 1) % 32);
            if (write) {
                row_words[w] |= mask;
            } else if (row_words[w] & mask) {
                has_bit = 1;
            }
        }
        __syncthreads();
        if (!has_bit) return;
    }
}
