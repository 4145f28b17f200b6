// to <- the transpose of a matrix of bits (rows, columns), zeros where there is none: `to` has as many rows as the grid has
// columns, 512 a block, each of whole words for 32 GROUP rows a block. Strides in words; bits beyond the last column count
// as zeros, whatever they are.
//
// Nothing is done where `wanted` is the address of a 0.
//
// A block of 16 GROUP threads reads 32 GROUP rows of 16 words and writes 512 rows of GROUP, which is 32, or 8 where there
// would be too few blocks. A thread transposes 32 x 32 bits in its registers.
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

constexpr int LINE = 32 * GROUP + 2;  // words for each word of a row: no two lanes of a warp meet in a bank

extern "C" __global__ void __launch_bounds__(16 * GROUP, 1024 / (16 * GROUP))
    bit_transpose(unsigned *to, long long to_stride, const unsigned *from, long long stride, int rows, int columns,
                  const unsigned *wanted) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // a product may come: it waits for the end of this
    if (wanted && !*wanted) return;
    extern __shared__ unsigned lines[];
    const int word = threadIdx.x & 15, group = threadIdx.x >> 4;
    const int row = (blockIdx.y * GROUP + group) * 32, at = blockIdx.x * 16 + word, bits = columns - 32 * at;
    const unsigned mask = bits >= 32 ? ~0u : bits > 0 ? (1u << bits) - 1 : 0u;
    unsigned a[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) a[i] = mask && row + i < rows ? from[(row + i) * stride + at] & mask : 0u;
    transpose(a);
#pragma unroll
    for (int i = 0; i < 32; ++i) lines[word * LINE + i * GROUP + group] = a[i];
    __syncthreads();
    const int first = threadIdx.x / GROUP, way = threadIdx.x % GROUP;
    unsigned *out = to + (blockIdx.x * 512 + first) * to_stride + blockIdx.y * GROUP + way;
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
        const int to_row = 16 * i + first;
        out[16 * i * to_stride] = lines[to_row / 32 * LINE + to_row % 32 * GROUP + way];
    }
}
