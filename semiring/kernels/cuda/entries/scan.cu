// One scan of every entry of an array: NaN, "no path", sign bits, entries outside the domain, and the range.
//
// The kernels use the bits of elements alone. An element becomes an unsigned key in the order of its value. For a float
// the sign bit is set, or, where it was set, every bit is inverted. For a signed integer the sign bit is inverted. So
// one kernel per width serves floats of any exponent (float16, bfloat16), integers and truth values.
//
// The result is three words that start as 0: flags, the greatest ~key (the least entry), and the greatest key. NaN and
// "no path" do not affect the range. Atomic operations are only maxima and or, so that the order of blocks has no
// effect.

typedef unsigned char Word8;
typedef unsigned short Word16;
typedef unsigned int Word32;
typedef unsigned long long Word64;

enum Flag { IS_NAN = 1, IS_ZERO = 2, HAS_SIGN = 4, IS_OUTSIDE = 8, IS_NUMBER = 16 };
enum Kind { UNSIGNED = 0, SIGNED = 1, FLOATING = 2 };

// The parameters of a scan: keys of the bounds of the domain, of the elements that are always inside, and of "no path".
struct Rule {
    Word64 infinity;  // the bits of a float's infinity; greater magnitudes are NaN
    Word64 low, high;  // the bounds of the domain
    Word64 zero, one;  // inside every domain
    Word64 absent;  // the key of "no path"
    Word64 kind, has_absent;
};

template <typename Word>
struct Summary {
    unsigned flags;
    Word least, greatest;  // the greatest ~key, the greatest key

    __device__ void add(Word bits, const Rule& rule) {
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
        // -0.0 counts as 0.0 in the domain. Its key is one less.
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
__device__ void finish(Summary<Word> summary, Word64* result) {
    __shared__ Summary<Word> warps[32];
    for (int lane = 16; lane; lane /= 2)
        summary.join(__shfl_xor_sync(~0u, summary.flags, lane), Word(__shfl_xor_sync(~0u, Word64(summary.least), lane)),
                     Word(__shfl_xor_sync(~0u, Word64(summary.greatest), lane)));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = summary;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        summary.join(warps[warp].flags, warps[warp].least, warps[warp].greatest);
    if (summary.flags) atomicOr(&result[0], Word64(summary.flags));
    if (summary.flags & IS_NUMBER) {
        atomicMax(&result[1], Word64(summary.least));
        atomicMax(&result[2], Word64(summary.greatest));
    }
}

// Rows of adjacent elements, each from a multiple of 16 bytes. `stride`: elements from row to row.
template <typename Word>
__device__ void scan_dense(const Word* data, Word64 rows, Word64 columns, Word64 stride, const Rule& rule,
                           Word64* result) {
    constexpr int lanes = 16 / sizeof(Word), unroll = 4;
    union Pack {
        uint4 vector;
        Word elements[lanes];
    };
    Summary<Word> summary = {0, 0, 0};
    const Word64 across = columns / lanes, packs = rows * across, threads = Word64(gridDim.x) * blockDim.x;
    const Word64 thread = Word64(blockIdx.x) * blockDim.x + threadIdx.x;
    const auto pack_at = [&](Word64 i) {
        Word64 row = 0;
        if (rows > 1)
            row = packs >> 32 ? i / across : Word32(i) / Word32(across);  // a division of 32 bits costs a quarter
        return reinterpret_cast<const uint4*>(data + row * stride) + (i - row * across);
    };
    Word64 i = thread;
    for (; i + (unroll - 1) * threads < packs; i += unroll * threads) {
        Pack loaded[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) loaded[u].vector = *pack_at(i + u * threads);
#pragma unroll
        for (int u = 0; u < unroll; ++u)
#pragma unroll
            for (int e = 0; e < lanes; ++e) summary.add(loaded[u].elements[e], rule);
    }
    for (; i < packs; i += threads) {
        Pack loaded;
        loaded.vector = *pack_at(i);
#pragma unroll
        for (int e = 0; e < lanes; ++e) summary.add(loaded.elements[e], rule);
    }
    const Word64 rest = columns - across * lanes;
    for (Word64 e = thread; e < rows * rest; e += threads)
        summary.add(data[e / rest * stride + across * lanes + e % rest], rule);
    finish(summary, result);
}

// Any three sizes and strides, in elements. The scan is fastest if the last index has the smallest stride.
template <typename Word>
__device__ void scan_strided(const Word* data, Word64 n1, Word64 n2, Word64 size, long long s0, long long s1,
                             long long s2, const Rule& rule, Word64* result) {
    Summary<Word> summary = {0, 0, 0};
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
        summary.add(data[plane * s0 + (n1 == 0 ? 0 : row - plane * n1) * s1 + column * s2], rule);
    }
    finish(summary, result);
}

#define SCAN(bits)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        scan_dense_##bits(const Word##bits* data, Word64 rows, Word64 columns, Word64 stride, const Rule* rule,       \
                          Word64* result) {                                                                           \
        scan_dense<Word##bits>(data, rows, columns, stride, Rule(*rule), result);                                     \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        scan_strided_##bits(const Word##bits* data, Word64 n1, Word64 n2, Word64 size, long long s0, long long s1,    \
                            long long s2, const Rule* rule, Word64* result) {                                         \
        scan_strided<Word##bits>(data, n1, n2, size, s0, s1, s2, Rule(*rule), result);                                \
    }

SCAN(8)
SCAN(16)
SCAN(32)
SCAN(64)
