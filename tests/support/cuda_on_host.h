// The part of CUDA that is needed to run a kernel on the host. One thread of one block runs at a time, on its own
// stack.
//
// A barrier switches to the next thread of the block. Blocks run one after the other. In a cooperative launch they
// alternate, and a block runs until it waits for another one. The caller chooses the order of threads and of blocks. If
// two orders give different results, a barrier is missing, or a block reads what another block of the same launch
// writes. With a seed, blocks also switch at their own barriers, in a random order. An asynchronous copy is executed
// only when a thread waits for it.
//
// With -fsanitize=thread, the compiler calls a function at every access. The sanitizer's library is not linked, because
// this header defines these functions. Two accesses of different blocks to one watched element are a race if one of
// them is a write, and no release and acquire order them. This does not depend on the order in which the blocks run.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define DYNAMIC_SHARED(name) unsigned char *name = host::pool()
#define ON_HOST

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

#define UNSEEN __attribute__((no_sanitize("thread"), noinline))

namespace host {
// The clock of a block counts its releases. Each watched element has the clocks at which each block last read and wrote
// it. Each word of a barrier between blocks has the clocks of the blocks that released it.
struct Watched {
    char *begin, *end;
    int size;
    unsigned *reads, *writes;  // (elements, blocks)
};
struct Race {
    int array;
    long long element;
    int is_write, by, other;
};
struct Word {
    const void *at;
    unsigned *clocks;
};
enum Access { READ, WRITE, ATOMIC };  // an atomic access counts as a read: it races with plain writes only
std::vector<Watched> watched;
std::vector<Word> words;
std::vector<Race> races;
// clocks is (blocks, blocks): row i has the clocks of all blocks that block i has acquired. here: the running block.
unsigned *clocks, blocks, here;
bool looking;
struct Range {
    char *begin;
    size_t bytes;
} private_ranges[2];  // stacks and shared memory, which have most of the accesses

UNSEEN void found(int array, long long element, int is_write, unsigned other) {
    races.push_back({array, element, is_write, (int)here, (int)other});
}
UNSEEN void touch(const void *address, long long bytes, Access access) {
    if (!looking) return;
    for (const Range &range : private_ranges) {
        if ((size_t)((char *)address - range.begin) < range.bytes) return;
    }
    looking = false;  // accesses of functions that are called from here are not checked
    const unsigned *seen = clocks + here * blocks;
    for (int a = 0; a < (int)watched.size(); ++a) {
        const Watched &array = watched[a];
        if ((char *)address < array.begin || (char *)address >= array.end) continue;
        const long long first = ((char *)address - array.begin) / array.size, count = (bytes + array.size - 1) / array.size;
        for (long long e = first; e < first + count; ++e) {
            unsigned *reads = array.reads + e * blocks, *writes = array.writes + e * blocks;
            for (unsigned b = 0; b < blocks; ++b) {
                if (b == here) continue;
                const bool late = writes[b] > seen[b] || (access == WRITE && reads[b] > seen[b]);
                if (late && races.size() < 1 << 20) found(a, e, access == WRITE, b);
            }
            (access == WRITE ? writes : reads)[here] = seen[here];
        }
    }
    looking = true;
}
UNSEEN unsigned *released(const void *at) {
    for (const Word &word : words) {
        if (word.at == at) return word.clocks;
    }
    words.push_back({at, (unsigned *)std::calloc(blocks, sizeof(unsigned))});
    return words.back().clocks;
}
UNSEEN void release(const void *at) {
    if (!looking) return;
    looking = false;
    unsigned *word = released(at), *own = clocks + here * blocks;
    for (unsigned b = 0; b < blocks; ++b) word[b] = word[b] > own[b] ? word[b] : own[b];
    ++own[here];
    looking = true;
}
UNSEEN void acquire(const void *at) {
    if (!looking) return;
    looking = false;
    unsigned *word = released(at), *own = clocks + here * blocks;
    for (unsigned b = 0; b < blocks; ++b) {
        if (b != here && word[b] > own[b]) own[b] = word[b];
    }
    looking = true;
}
UNSEEN void begin_to_look(unsigned count) {
    blocks = count, races.clear(), words.clear();
    clocks = (unsigned *)std::calloc(count * count, sizeof(unsigned));
    for (unsigned b = 0; b < count; ++b) clocks[b * count + b] = 1;
    for (Watched &array : watched) {
        const size_t elements = (array.end - array.begin) / array.size + 16 / array.size;
        array.reads = (unsigned *)std::calloc(elements * count, sizeof(unsigned));
        array.writes = (unsigned *)std::calloc(elements * count, sizeof(unsigned));
    }
}
UNSEEN void end_of_look() {
    for (Watched &array : watched) std::free(array.reads), std::free(array.writes);
    for (Word &word : words) std::free(word.clocks);
    std::free(clocks), watched.clear(), words.clear();
}

struct Copy {
    void *to;
    const void *from;
    int bytes, size;
};
struct Fiber {
    ucontext_t context;
    dim3 index;
    bool done, waiting;  // waiting: at a barrier of its block
    std::vector<std::vector<Copy>> groups;
};
struct alignas(128) Pool {
    unsigned char bytes[1 << 18];
};
struct Block {
    dim3 index;
    unsigned number;
    Pool *pool;
    Fiber *fibers;
};
ucontext_t scheduler;
Block *block;
Fiber *fiber;
std::function<void()> body;

unsigned char *pool() { return block->pool->bytes; }
void let_others_run() { swapcontext(&fiber->context, &scheduler); }
void wait_for_block() {
    fiber->waiting = true;
    let_others_run();
}
void entry() {
    body();
    fiber->done = true;
    let_others_run();
}
void copy(void *to, const void *from, int bytes, int size) { fiber->groups.back().push_back({to, from, bytes, size}); }
void commit() { fiber->groups.emplace_back(); }
void wait(unsigned pending) {
    auto &groups = fiber->groups;
    while (groups.size() > pending + 1) {
        for (const Copy &c : groups.front()) {
            std::memset(c.to, 0, c.size);
            if (c.bytes) touch(c.from, c.bytes, READ), std::memcpy(c.to, c.from, c.bytes);
        }
        groups.erase(groups.begin());
    }
}
unsigned lot;  // the state of the random numbers; 0: orders are not random
unsigned draw(unsigned below) { return (lot = lot * 1664525 + 1013904223 | 1) / 65536 % below; }

// Run the threads of a block in turn until no thread can continue, or until another block must run. Return whether a
// thread advanced.
bool run_block(Block &which, unsigned threads, bool order) {
    block = &which, blockIdx = which.index, here = which.number;
    unsigned turns = lot ? 1 + draw(8) : 0;
    for (bool any = false;; any = true) {
        bool went_on = false;
        const bool backwards = lot ? draw(2) : order;
        unsigned done = 0, waiting = 0;
        for (unsigned t = 0; t < threads; ++t) {
            fiber = which.fibers + (backwards ? threads - 1 - t : t);
            if (!fiber->done && !fiber->waiting) {
                threadIdx = fiber->index;
                looking = !watched.empty();
                swapcontext(&scheduler, &fiber->context);
                looking = false;
                went_on |= fiber->done || fiber->waiting;
            }
            done += fiber->done, waiting += fiber->waiting;
        }
        if (done + waiting == threads) {
            for (unsigned t = 0; t < threads; ++t) which.fibers[t].waiting = false;
        }
        if (done == threads || !went_on || --turns == 0) return any || went_on;
    }
}
// ``together``: how many blocks run at once and may wait for each other. ``seed``: of the random order, or 0.
void run(dim3 grid, dim3 size, bool backwards, unsigned together, unsigned seed, std::function<void()> kernel) {
    static std::vector<unsigned char> stacks;
    static std::vector<Pool> pools;
    static std::vector<Fiber> fibers;
    const size_t stack = 1 << 15;
    const unsigned threads = size.x * size.y * size.z, count = grid.x * grid.y * grid.z;
    stacks.resize(stack * threads * together), pools.resize(together), fibers.resize(threads * together);
    body = kernel, gridDim = grid, blockDim = size, lot = seed;
    private_ranges[0] = {(char *)stacks.data(), stacks.size()};
    private_ranges[1] = {(char *)pools.data(), pools.size() * sizeof(Pool)};
    if (!watched.empty()) begin_to_look(count);
    for (unsigned first = 0; first < count; first += together) {
        std::vector<Block> blocks;
        for (unsigned b = first; b < count && b < first + together; ++b) {
            const unsigned which = backwards ? count - 1 - b : b, place = b - first;
            blocks.push_back({{which % grid.x, which / grid.x % grid.y, which / grid.x / grid.y}, which, &pools[place],
                              &fibers[place * threads]});
            std::memset(pools[place].bytes, 0xCD, sizeof(Pool));
            for (unsigned t = 0; t < threads; ++t) {
                Fiber &fiber = blocks.back().fibers[t];
                fiber.index = {t % size.x, t / size.x % size.y, t / size.x / size.y};
                fiber.done = fiber.waiting = false;
                fiber.groups.assign(1, {});
                getcontext(&fiber.context);
                fiber.context.uc_stack.ss_sp = &stacks[(place * threads + t) * stack];
                fiber.context.uc_stack.ss_size = stack;
                makecontext(&fiber.context, entry, 0);
            }
        }
        for (bool went_on = true; went_on;) {
            went_on = false;
            if (lot) std::swap(blocks[draw(blocks.size())], blocks[draw(blocks.size())]);
            for (Block &which : blocks) went_on |= run_block(which, threads, backwards);
        }
        for (unsigned t = 0; t < threads * blocks.size(); ++t) {
            if (!fibers[t].done) std::fprintf(stderr, "blocks wait for each other\n"), std::abort();
        }
    }
    if (!watched.empty()) end_of_look();
}
}  // namespace host

extern "C" void watch(void *array, long long bytes, int size) {
    host::watched.push_back({(char *)array, (char *)array + bytes, size, nullptr, nullptr});
}
extern "C" long long races(const host::Race **all) {
    *all = host::races.data();
    return host::races.size();
}
#ifdef __SANITIZE_THREAD__
#define ACCESS(bytes)                                                                                              \
    extern "C" UNSEEN void __tsan_read##bytes(void *at) { host::touch(at, bytes, host::READ); }                    \
    extern "C" UNSEEN void __tsan_write##bytes(void *at) { host::touch(at, bytes, host::WRITE); }                  \
    extern "C" UNSEEN void __tsan_unaligned_read##bytes(void *at) { host::touch(at, bytes, host::READ); }          \
    extern "C" UNSEEN void __tsan_unaligned_write##bytes(void *at) { host::touch(at, bytes, host::WRITE); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
extern "C" UNSEEN void __tsan_read_range(void *at, long bytes) { host::touch(at, bytes, host::READ); }
extern "C" UNSEEN void __tsan_write_range(void *at, long bytes) { host::touch(at, bytes, host::WRITE); }
extern "C" UNSEEN void __tsan_vptr_update(void **, void *) {}
extern "C" UNSEEN void __tsan_vptr_read(void **) {}
extern "C" UNSEEN void __tsan_func_entry(void *) {}
extern "C" UNSEEN void __tsan_func_exit() {}
extern "C" UNSEEN void __tsan_init() {}
#endif

static inline void __syncthreads() { host::wait_for_block(); }
static inline void __threadfence() {}
template <class To, class From> static inline To bits_as(From x) {
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) { return bits_as<float>(x); }
static inline int __float_as_int(float x) { return bits_as<int>(x); }
static inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
template <class T> static UNSEEN T atomicMin(T *to, T x) {
    host::touch(to, sizeof *to, host::ATOMIC);
    const T old = *to;
    if (x < old) *to = x;
    return old;
}
template <class T> static UNSEEN T atomicMax(T *to, T x) {
    host::touch(to, sizeof *to, host::ATOMIC);
    const T old = *to;
    if (old < x) *to = x;
    return old;
}
template <class T, class U> static UNSEEN T atomicAdd(T *to, U x) {  // x is converted to T, as in CUDA
    host::touch(to, sizeof *to, host::ATOMIC);
    const T old = *to;
    *to = old + x;
    return old;
}
static UNSEEN unsigned atomicInc(unsigned *to, unsigned last) {
    host::touch(to, sizeof *to, host::ATOMIC);
    const unsigned old = *to;
    *to = old >= last ? 0 : old + 1;
    return old;
}
template <class T> static UNSEEN T atomicOr(T *to, T x) {
    host::touch(to, sizeof *to, host::ATOMIC);
    const T old = *to;
    *to = old | x;
    return old;
}
// Operations of a warp, for blocks of one warp: all of its threads take part.
static unsigned long long warp_words[32];
static inline void __syncwarp() { host::wait_for_block(); }
template <class T> static inline T __shfl_sync(unsigned, T x, int lane) {
    std::memcpy(warp_words + threadIdx.x, &x, sizeof x);
    host::wait_for_block();
    T y;
    std::memcpy(&y, warp_words + (lane & 31), sizeof y);
    host::wait_for_block();
    return y;
}
static inline unsigned __ballot_sync(unsigned, int x) {
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane) bits |= (unsigned)(__shfl_sync(~0u, x, lane) != 0) << lane;
    return bits;
}
static inline int __syncthreads_or(int x) { return __ballot_sync(~0u, x) != 0; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int b = 0; b < 4; ++b) result |= (unsigned)(both >> 8 * (selector >> 4 * b & 7) & 255) << 8 * b;
    return result;
}
