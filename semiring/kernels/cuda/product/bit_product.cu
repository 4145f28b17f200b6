// C <- C (+) A B of truth values, 32 to a word, by the 1-bit tensor cores of Hopper. The instruction adds up 256 ands.
// A sum becomes a bit as "not 0" (or) or as its parity (PARITY: xor).
//
// Both operands lie along k. B is transposed, in a panel of SLABS x 1024 bits whose rows are padded with zeros to a
// multiple of 512. A block keeps 256 rows of the panel in shared memory, and streams tiles of 64 rows of A through a
// ring buffer. Two blocks form a cluster, process adjacent columns, and share every tile of A. In a block one warp
// loads. Two warpgroups alternate on the tensor cores: while one multiplies, the other one converts its sums into bits
// and writes them.
//
// The rows of the panel are permuted, so that a lane holds 64 adjacent columns of two rows of C. Each row needs one
// word of 64 bits and no exchange between lanes. A word is loaded one turn ahead, and written only if it changes.
//
// READS: C is read; otherwise it is only written. WIDE: words of C come in pairs at multiples of 8 bytes, so that a
// lane's 64 columns are one access. If k is 2048 or less, the work of a group between its turns takes longer than a
// turn, and every access counts. All accesses are guarded by the rows and words of C. bit_kernels.py has the sizes of
// shared memory.
//
// WATCHED: the kernel does nothing if *run_flag is 0, and sets *change_flag to 1 if a word of C changes.
typedef unsigned long long Word64;

struct __align__(64) TensorMap {
    Word64 opaque[16];
};

constexpr int PANEL = 32768, TILE = 8192;  // bytes of 256 rows of the panel and of 64 rows of A, for 1024 bits of each
constexpr int PANELS = SLABS <= 2 ? 2 : 1, STAGES = SLABS == 1 ? 16 : SLABS == 2 ? 6 : 3;

__device__ __forceinline__ unsigned shared_address(const void *p) { return unsigned(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_arrive_at(unsigned barrier, unsigned block) {
    asm volatile(
        "{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r];}" ::"r"(barrier),
        "r"(block)
        : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    unsigned is_complete = 0;
    while (!is_complete)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(is_complete)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

// Load 32 rows of A, from a row and a byte of its map, into both blocks of the cluster.
__device__ __forceinline__ void load_a(unsigned target, const TensorMap *map, unsigned barrier, int byte, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
                 "l"(map), "r"(barrier), "r"(byte), "r"(row), "h"((unsigned short)3)
                 : "memory");
}
// Load 256 rows of the panel. Row 2q + 8j + e of the tile is row 64q + 2j + e of the panel.
__device__ __forceinline__ void load_panel(unsigned target, const TensorMap *map, unsigned barrier, int byte,
                                           int block) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %4, %4, %5}], [%2];" ::"r"(target),
                 "l"(map), "r"(barrier), "r"(byte), "r"(0), "r"(block)
                 : "memory");
}

// A kernel that is launched early may overlap with the end of the preceding kernel in the stream. wait_before waits for
// that end.
__device__ __forceinline__ void wait_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

__device__ __forceinline__ void turn_wait(int barrier) { asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void turn_give(int barrier) {
    asm volatile("bar.arrive %0, 256;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

#define FOUR(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
// Add 256 bits of k to the sums of 64 x 256 entries. Only the low words of the descriptors differ. The high word says
// that rows are swizzled by 128 bytes, and that 8 rows are 1024 bytes.
__device__ __forceinline__ void multiply(int (&d)[128], unsigned a, unsigned b, int adds) {
    asm volatile(
        "{.reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %130, 0;\n"
        "mov.b64 x, {%128, 1073741888}; mov.b64 y, {%129, 1073741888};\n"
        "wgmma.mma_async.sync.aligned.m64n256k256.s32.b1.b1.and.popc {ACCUMULATORS}, x, y, p;}\n"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)
        : "r"(a), "r"(b), "r"(adds));
}

// Convert sums to the bits of two rows of 64 columns. Sums stay below 65536, so that two of them share a register.
// Their minimum with 1 is shifted into the word, at 1.5 instructions per bit.
__device__ __forceinline__ void to_bits(const int (&d)[128], Word64 (&bits)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        unsigned half[2] = {0, 0};
#pragma unroll
        for (int word = 0; word < 2; ++word) {
#if PARITY
#pragma unroll
            for (int i = 0; i < 32; ++i)
                half[word] = __funnelshift_r(half[word], unsigned(d[4 * (16 * word + i / 2) + 2 * row + i % 2]), 1);
#else
#pragma unroll
            for (int i = 15; i >= 0; --i) {
                const int low = d[4 * (16 * word + i / 2) + 2 * row + i % 2];
                const int high = d[4 * (16 * word + (i + 16) / 2) + 2 * row + i % 2];
                unsigned both;
                asm("mad.lo.u32 %0, %1, 65536, %2;" : "=r"(both) : "r"(high), "r"(low));
                half[word] = half[word] * 2 + __vminu2(both, 0x00010001u);
            }
#endif
        }
        bits[row] = half[0] | Word64(half[1]) << 32;
    }
}

struct Target {  // the position of a lane's words in C, in words of 32 bits
    unsigned *row;
    int rows, words;  // the remaining rows and words of C from there on

    __device__ __forceinline__ Word64 load() const {
        Word64 value = 0;
#if WIDE
        if (READS && rows > 0 && words > 0) value = *(const Word64 *)row;
#else
        if (READS && rows > 0 && words > 0) value = row[0];
        if (READS && rows > 0 && words > 1) value |= Word64(row[1]) << 32;
#endif
        return value;
    }
    // Store the new word, and return whether it differs from the old one.
    __device__ __forceinline__ bool store(Word64 old_word, Word64 product) const {
        const Word64 value = PARITY ? old_word ^ product : old_word | product;
        const bool is_inside = rows > 0 && words > 0;
#if WIDE
        if (is_inside && (!READS || value != old_word)) *(Word64 *)row = value;
#else
        if (is_inside && (!READS || unsigned(value) != unsigned(old_word))) row[0] = unsigned(value);
        if (is_inside && words > 1 && (!READS || value >> 32 != old_word >> 32)) row[1] = unsigned(value >> 32);
#endif
        return is_inside && value != old_word;
    }
};

// A unit of work has at most `unit` pairs of tiles of 64 rows, for 512 columns. ``pairs``: the number of pairs of tiles
// in all rows.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    bit_product(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, unsigned *C,
                long long stride, int rows, int words, int pairs, int unit
#if WATCHED
                ,
                const unsigned *run_flag, unsigned *change_flag
#endif
    ) {
#if WATCHED
    // The preceding kernel has waited for the kernel that wrote run_flag, so that this read needs no wait. But this
    // kernel may not end before that wait.
    if (!__ldcg(run_flag)) {
        wait_before();
        return;
    }
#endif
    extern __shared__ unsigned char raw[];
    unsigned base = (shared_address(raw) + 1023) & ~1023u;
    // The address is opaque to the compiler, which would otherwise recompute it at every use.
    asm volatile("mov.u32 %0, %0;" : "+r"(base));
    const unsigned panels = base, tiles = panels + PANELS * SLABS * PANEL, barriers = tiles + STAGES * SLABS * TILE;
    // Each slab of a panel has its own barrier, so that the first products begin when the first slab has arrived.
    const unsigned panel_full = barriers, panel_free = barriers + 32, tile_full = barriers + 48;
    const unsigned tile_free = tile_full + 8 * STAGES;
    const int group = threadIdx.x >> 7, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) barrier_init(panel_full + 8 * i, 1);
        for (int i = 0; i < 2; ++i) barrier_init(panel_free + 8 * i, 8);
        for (int i = 0; i < STAGES; ++i) barrier_init(tile_full + 8 * i, 1), barrier_init(tile_free + 8 * i, 8);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();
    let_next_begin();
    const int columns = (words + 15) / 16;  // columns of clusters, 512 bits each
    const int units = (pairs + unit - 1) / unit * columns, first = blockIdx.x >> 1, step = gridDim.x >> 1;
    // The height of a unit in pairs of tiles, and the column of this block in 256 bits.
    const auto height = [&](int u) { return min(unit, pairs - u / columns * unit); };
    const auto column = [&](int u) { return 2 * (u % columns) + int(rank); };

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp == 0) {
            int stage = 0, panel = 0;
            unsigned phase = 0, panel_phase = 0;
            for (int u = first; u < units; u += step) {
                const int top = u / columns * unit * 128;
                for (int t = 0; t < 2 * height(u); ++t) {
                    // A tile of A is loaded first, because it needs neither another kernel nor a free panel.
                    if (t == 1) {
                        if (lane == 0) {
                            wait_before();
                            barrier_wait(panel_free + 8 * panel, panel_phase ^ 1);
#pragma unroll
                            for (int s = 0; s < SLABS; ++s) {
                                const int slab = panel * SLABS + s;
                                barrier_expect(panel_full + 8 * slab, PANEL);
                                load_panel(panels + slab * PANEL, &b_map, panel_full + 8 * slab, s * 128, column(u));
                            }
                        }
                        if (++panel == PANELS) panel = 0, panel_phase ^= 1;
                    }
                    const int row = top + 64 * t;
                    if (lane == 0) {
                        barrier_wait(tile_free + 8 * stage, phase ^ 1);
                        barrier_expect(tile_full + 8 * stage, SLABS * TILE);
#pragma unroll
                        for (int s = 0; s < SLABS; ++s)
                            load_a(tiles + (stage * SLABS + s) * TILE + rank * (TILE / 2), &a_map,
                                   tile_full + 8 * stage, s * 128, row + rank * 32);
                    }
                    __syncwarp();
                    const unsigned *line = C + (row + lane) * stride + column(u) * 8;
                    if (READS && column(u) * 8 < words) {
                        if (row + lane < rows) asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
                        if (row + lane + 32 < rows) asm volatile("prefetch.global.L2 [%0];" ::"l"(line + 32 * stride));
                    }
                    if (++stage == STAGES) stage = 0, phase ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int consumer = group - 1;  // the warpgroup takes the tiles consumer, consumer + 2, ... of each unit
        int stage = consumer, panel = 0;
        unsigned phase = 0, panel_phase = 0;
        int d[128];
        const int row_in_tile = warp * 16 + (lane >> 2), word_in_tile = 2 * (lane & 3);
        const auto start_of = [&](int u) {
            const int row = (u / columns * unit * 2 + consumer) * 64 + row_in_tile, word = column(u) * 8 + word_in_tile;
            return Target{C + row * stride + word, rows - row, words - word};
        };
        const auto rows_below = [&](const Target &t, int by) {
            return Target{t.row + by * stride, t.rows - by, t.words};
        };
        int u = first;
        Target current = start_of(u);
        Word64 old_words[2] = {0, 0};
        if (READS) wait_before();
        if (u < units) old_words[0] = current.load(), old_words[1] = rows_below(current, 8).load();
        if (consumer == 1) turn_give(1);
        while (u < units) {
            const int count = height(u);
            u += step;
            const Target next_unit = u < units ? start_of(u) : current;
            const unsigned b = ((panels + panel * SLABS * PANEL) >> 4) + 0x10000;
#pragma unroll 1
            for (int i = count; i; --i) {
                const unsigned a = ((tiles + stage * SLABS * TILE) >> 4) + 0x10000,
                               free_barrier = tile_free + 8 * stage;
                turn_wait(1 + consumer);
                barrier_wait(tile_full + 8 * stage, phase);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int s = 0; s < SLABS; ++s) {
                    if (i == count) barrier_wait(panel_full + 8 * (panel * SLABS + s), panel_phase);
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        multiply(d, a + s * (TILE >> 4) + 2 * k, b + s * (PANEL >> 4) + 2 * k, (s | k) != 0);
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                turn_give(2 - consumer);
                // The loads of the next words of C overlap with the products.
                const Target next = i > 1 ? rows_below(current, 128) : next_unit;
                const Word64 next_words[2] = {next.load(), rows_below(next, 8).load()};
                stage += 2;
                if (stage >= STAGES) stage -= STAGES, phase ^= 1;
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                if (lane < 2) barrier_arrive_at(free_barrier, lane);
                Word64 bits[2];
                to_bits(d, bits);
                const bool first = current.store(old_words[0], bits[0]),
                           second = rows_below(current, 8).store(old_words[1], bits[1]);
#if WATCHED
                if (first || second) *change_flag = 1;
#endif
                old_words[0] = next_words[0], old_words[1] = next_words[1], current = next;
            }
            if (lane == 0) barrier_arrive(panel_free + 8 * panel);
            if (++panel == PANELS) panel = 0, panel_phase ^= 1;
        }
        if (consumer == 0) turn_wait(1);  // receive the last turn that the other warpgroup passed on
    }
    cluster_sync();
}
