// One pass over an array of elements of type T:  y <- STATEMENT of x.  Before the statement, y has the value of x.
//
// Elements of a row are adjacent, and each row begins at a multiple of 16 bytes. Strides from row to row are in
// elements. If source and target are the same, unchanged elements are not written. BEFORE is the first statement of a
// block.
//
// H200, 2026-11-21, 4096 x 4096 float32 in place: 22 us for a pass that only reads, 38 us for a copy. CuPy's
// elementwise kernels have one element per thread in blocks of 128. They took 84 us for either, whether or not anything
// changed.
typedef unsigned long long Word64;

union Pack {
    uint4 vector;
    T elements[16 / sizeof(T)];
};

extern "C" __global__ void __launch_bounds__(256) pass(const T *source, T *target, Word64 rows, Word64 columns,
                                                       Word64 source_stride, Word64 target_stride PARAMETERS) {
    constexpr int LANES = 16 / sizeof(T), UNROLL = 4;
    BEFORE
    const auto result_of = [&](T x) {
        T y = x;
        STATEMENT;
        return y;
    };
    const Word64 across = columns / LANES, packs = rows * across, threads = Word64(gridDim.x) * blockDim.x;
    const Word64 thread = Word64(blockIdx.x) * blockDim.x + threadIdx.x;
    for (Word64 first = thread; first < packs; first += UNROLL * threads) {
        Pack x[UNROLL];
        Word64 row[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const Word64 i = first + u * threads;
            if (i >= packs) break;
            // a division of 32 bits costs a quarter
            row[u] = rows == 1 ? 0 : packs >> 32 ? i / across : unsigned(i) / unsigned(across);
            x[u].vector = *((const uint4 *)(source + row[u] * source_stride) + (i - row[u] * across));
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const Word64 i = first + u * threads;
            if (i >= packs) break;
            Pack y;
            bool is_unchanged = source == target;
#pragma unroll
            for (int e = 0; e < LANES; ++e) {
                y.elements[e] = result_of(x[u].elements[e]);
                is_unchanged = is_unchanged && y.elements[e] == x[u].elements[e];
            }
            if (!is_unchanged) *((uint4 *)(target + row[u] * target_stride) + (i - row[u] * across)) = y.vector;
        }
    }
    const Word64 rest = columns - across * LANES;
    for (Word64 e = thread; e < rows * rest; e += threads) {
        const Word64 column = across * LANES + e % rest, row = e / rest;
        target[row * target_stride + column] = result_of(source[row * source_stride + column]);
    }
}
