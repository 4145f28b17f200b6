// One look at every entry of an array: NaN, "no path", set sign bits, entries outside the domain, the range.
//
// Everything is done on the bits. An element is taken for an unsigned key in the order of its value: of a float the
// sign bit is set, or, where it was set, every bit inverted; of a signed integer the sign bit is inverted. So one
// kernel a width serves floats of any exponent (float16, bfloat16), integers and truths.
//
// The result is three words that start as 0: flags, the greatest ~key (the least entry), the greatest key. NaN and
// "no path" do not take part in the range. Atomics meet in maxima and in bits alone: no order of blocks shows.

typedef unsigned char Word8;
typedef unsigned short Word16;
typedef unsigned int Word32;
typedef unsigned long long Word64;

enum Flag { IS_NAN = 1, IS_ZERO = 2, HAS_SIGN = 4, IS_OUTSIDE = 8, IS_NUMBER = 16 };
enum Kind { UNSIGNED = 0, SIGNED = 1, FLOATING = 2 };

// The parameters of a scan: keys of the ends of the domain, of the elements that are always inside, of "no path".
struct Rule {
    Word64 infinity;  // the bits of a float's infinity: what lies above is NaN
    Word64 low, high;  // the domain
    Word64 zero, one;  // inside the domain whatever it is
    Word64 absent;  // "no path"
    Word64 kind, has_absent;
};

template <typename Word>
struct Found {
    unsigned flags;
    Word least, greatest;  // the greatest ~key, the greatest key

    __device__ void take(Word bits, const Rule& rule) {
        const Word sign = Word(Word(1) << (8 * sizeof(Word) - 1));
        Word key = bits;
        if (rule.kind == FLOATING) {
            if (Word(bits & Word(~sign)) > Word(rule.infinity)) {
                flags |= IS_NAN;
                return;
            }
            key = (bits & sign) ? Word(~bits) : Word(bits | sign);
        } else if (rule.kind == SIGNED) {
            key = Word(bits ^ sign);
        }
        if (rule.kind != UNSIGNED && (bits & sign)) flags |= HAS_SIGN;
        if (rule.has_absent && key == Word(rule.absent)) {
            flags |= IS_ZERO;
            return;
        }
        // -0.0 counts as 0.0 in the domain, and its key is one below.
        const Word value = (rule.kind == FLOATING && key == Word(sign - 1)) ? sign : key;
        if ((value < Word(rule.low) || value > Word(rule.high)) && value != Word(rule.zero) && value != Word(rule.one))
            flags |= IS_OUTSIDE;
        flags |= IS_NUMBER;
        least = max(least, Word(~key));
        greatest = max(greatest, key);
    }

    __device__ static Word max(Word a, Word b) { return a > b ? a : b; }

    __device__ void join(unsigned other_flags, Word other_least, Word other_greatest) {
        flags |= other_flags;
        least = max(least, other_least);
        greatest = max(greatest, other_greatest);
    }
};

template <typename Word>
__device__ void finish(Found<Word> found, Word64* result) {
    __shared__ Found<Word> warps[32];
    for (int lane = 16; lane; lane /= 2)
        found.join(__shfl_xor_sync(~0u, found.flags, lane), Word(__shfl_xor_sync(~0u, Word64(found.least), lane)),
                   Word(__shfl_xor_sync(~0u, Word64(found.greatest), lane)));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = found;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        found.join(warps[warp].flags, warps[warp].least, warps[warp].greatest);
    if (found.flags) atomicOr(&result[0], Word64(found.flags));
    if (found.flags & IS_NUMBER) {
        atomicMax(&result[1], Word64(found.least));
        atomicMax(&result[2], Word64(found.greatest));
    }
}

// Rows of elements that lie beside each other, each from an address that 16 divides. `stride`: from row to row.
template <typename Word>
__device__ void look_dense(const Word* data, Word64 rows, Word64 columns, Word64 stride, const Rule& rule,
                           Word64* result) {
    constexpr int lanes = 16 / sizeof(Word), unroll = 4;
    union Pack {
        uint4 vector;
        Word elements[lanes];
    };
    Found<Word> found = {0, 0, 0};
    const Word64 across = columns / lanes, packs = rows * across, threads = Word64(gridDim.x) * blockDim.x;
    const Word64 own = Word64(blockIdx.x) * blockDim.x + threadIdx.x;
    const auto pack_at = [&](Word64 i) {
        Word64 row = 0;
        if (rows > 1) row = packs >> 32 ? i / across : Word32(i) / Word32(across);  // 32 bits cost a quarter
        return reinterpret_cast<const uint4*>(data + row * stride) + (i - row * across);
    };
    Word64 i = own;
    for (; i + (unroll - 1) * threads < packs; i += unroll * threads) {
        Pack loaded[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) loaded[u].vector = *pack_at(i + u * threads);
#pragma unroll
        for (int u = 0; u < unroll; ++u)
#pragma unroll
            for (int e = 0; e < lanes; ++e) found.take(loaded[u].elements[e], rule);
    }
    for (; i < packs; i += threads) {
        Pack loaded;
        loaded.vector = *pack_at(i);
#pragma unroll
        for (int e = 0; e < lanes; ++e) found.take(loaded.elements[e], rule);
    }
    const Word64 rest = columns - across * lanes;
    for (Word64 e = own; e < rows * rest; e += threads)
        found.take(data[e / rest * stride + across * lanes + e % rest], rule);
    finish(found, result);
}

// Any three sizes and strides (in elements); the last index is meant to be the one with the smallest stride.
template <typename Word>
__device__ void look_strided(const Word* data, Word64 n1, Word64 n2, Word64 size, long long s0, long long s1,
                             long long s2, const Rule& rule, Word64* result) {
    Found<Word> found = {0, 0, 0};
    const Word64 threads = Word64(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (Word64 i = Word64(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += threads) {
        Word64 row, column;
        if (size >> 32) {
            row = i / n2;
            column = i - row * n2;
        } else {  // a division of 32 bits costs a quarter
            row = Word32(i) / Word32(n2);
            column = Word32(i) - Word32(row) * Word32(n2);
        }
        const Word64 plane = n1 == 0 ? row : row / n1;  // n1 = 0: there are two sizes
        found.take(data[plane * s0 + (n1 == 0 ? 0 : row - plane * n1) * s1 + column * s2], rule);
    }
    finish(found, result);
}

#define LOOK(bits)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        look_dense_##bits(const Word##bits* data, Word64 rows, Word64 columns, Word64 stride, const Rule* rule,       \
                          Word64* result) {                                                                           \
        look_dense<Word##bits>(data, rows, columns, stride, Rule(*rule), result);                                     \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        look_strided_##bits(const Word##bits* data, Word64 n1, Word64 n2, Word64 size, long long s0, long long s1,    \
                            long long s2, const Rule* rule, Word64* result) {                                         \
        look_strided<Word##bits>(data, n1, n2, size, s0, s1, s2, Rule(*rule), result);                                \
    }

LOOK(8)
LOOK(16)
LOOK(32)
LOOK(64)
