// to <- the transpose of a matrix of bits (rows, columns), zeros where there is none: `to` has as many rows as the grid has
// columns, 512 a block, each of whole words for 1024 rows a block. Strides in words; bits beyond the last column count as
// zeros, whatever they are.
//
// Nothing is done where `wanted` is the address of a 0.
//
// A block reads 1024 rows of 16 words and writes 512 rows of 32. A thread transposes 32 x 32 bits in its registers.
template <int SHIFT> __device__ __forceinline__ void exchange(unsigned (&a)[32]) {
    constexpr unsigned LOW = SHIFT == 4 ? 0x0F0F0F0Fu : SHIFT == 2 ? 0x33333333u : 0x55555555u;
#pragma unroll
    for (int k = 0; k < 32; ++k) {
        if (k & SHIFT) continue;
        const unsigned x = a[k], y = a[k + SHIFT];
        a[k] = (x & LOW) | ((y << SHIFT) & ~LOW);
        a[k + SHIFT] = ((x >> SHIFT) & LOW) | (y & ~LOW);
    }
}

__device__ __forceinline__ void transpose(unsigned (&a)[32]) {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const unsigned x = a[k], y = a[k + 16];
        a[k] = __byte_perm(x, y, 0x5410), a[k + 16] = __byte_perm(x, y, 0x7632);
    }
#pragma unroll
    for (int k = 0; k < 32; ++k) {
        if (k & 8) continue;
        const unsigned x = a[k], y = a[k + 8];
        a[k] = __byte_perm(x, y, 0x6240), a[k + 8] = __byte_perm(x, y, 0x7351);
    }
    exchange<4>(a), exchange<2>(a), exchange<1>(a);
}

constexpr int LINE = 1026;  // words of shared memory for each word of a row: no two lanes of a warp meet in a bank

extern "C" __global__ void __launch_bounds__(512, 2)
    bit_transpose(unsigned *to, long long to_stride, const unsigned *from, long long stride, int rows, int columns,
                  const unsigned *wanted) {
    if (wanted && !*wanted) return;
    extern __shared__ unsigned lines[];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, word = lane & 15, group = 2 * warp + (lane >> 4);
    const int row = blockIdx.y * 1024 + group * 32, at = blockIdx.x * 16 + word, bits = columns - 32 * at;
    const unsigned mask = bits >= 32 ? ~0u : bits > 0 ? (1u << bits) - 1 : 0u;
    unsigned a[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) a[i] = mask && row + i < rows ? from[(row + i) * stride + at] & mask : 0u;
    transpose(a);
#pragma unroll
    for (int i = 0; i < 32; ++i) lines[word * LINE + i * 32 + group] = a[i];
    __syncthreads();
    unsigned *out = to + (blockIdx.x * 512 + warp * 32) * to_stride + blockIdx.y * 32 + lane;
#pragma unroll 8
    for (int i = 0; i < 32; ++i) out[i * to_stride] = lines[warp * LINE + i * 32 + lane];
}
