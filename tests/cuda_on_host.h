// Just enough of CUDA to run a kernel on the host, one thread of one block at a time, each with a stack of its own.
//
// A barrier switches to the next thread of the block; blocks follow one another, or, in a cooperative launch, take
// turns: each runs until it waits for another. The order of the threads and of the blocks is the caller's choice:
// what differs between two orders is a missing barrier, or a block that reads what another block of the same launch
// writes. An asynchronous copy happens when it is waited for, not before.
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

namespace host {
struct Copy {
    void *to;
    const void *from;
    int bytes, size;
};
struct Fiber {
    ucontext_t context;
    dim3 index;
    bool done, waiting;  // for the others of its block
    std::vector<std::vector<Copy>> groups;
};
struct alignas(128) Pool {
    unsigned char bytes[1 << 18];
};
struct Block {
    dim3 index;
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
            if (c.bytes) std::memcpy(c.to, c.from, c.bytes);
        }
        groups.erase(groups.begin());
    }
}
// Every thread of a block in turn until none can go on: whether any of them went on.
bool run_block(Block &which, unsigned threads, bool backwards) {
    block = &which, blockIdx = which.index;
    for (bool any = false;; any = true) {
        bool went_on = false;
        unsigned done = 0, waiting = 0;
        for (unsigned t = 0; t < threads; ++t) {
            fiber = which.fibers + (backwards ? threads - 1 - t : t);
            if (!fiber->done && !fiber->waiting) {
                threadIdx = fiber->index;
                swapcontext(&scheduler, &fiber->context);
                went_on |= fiber->done || fiber->waiting;
            }
            done += fiber->done, waiting += fiber->waiting;
        }
        if (done + waiting == threads) {
            for (unsigned t = 0; t < threads; ++t) which.fibers[t].waiting = false;
        }
        if (done == threads || !went_on) return any || went_on;
    }
}
// ``together``: so many blocks at once, which may wait for each other.
void run(dim3 grid, dim3 size, bool backwards, unsigned together, std::function<void()> kernel) {
    static std::vector<unsigned char> stacks;
    static std::vector<Pool> pools;
    static std::vector<Fiber> fibers;
    const size_t stack = 1 << 15;
    const unsigned threads = size.x * size.y * size.z, count = grid.x * grid.y * grid.z;
    stacks.resize(stack * threads * together), pools.resize(together), fibers.resize(threads * together);
    body = kernel, gridDim = grid, blockDim = size;
    for (unsigned first = 0; first < count; first += together) {
        std::vector<Block> blocks;
        for (unsigned b = first; b < count && b < first + together; ++b) {
            const unsigned which = backwards ? count - 1 - b : b, place = b - first;
            blocks.push_back({{which % grid.x, which / grid.x % grid.y, which / grid.x / grid.y}, &pools[place],
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
            for (Block &which : blocks) went_on |= run_block(which, threads, backwards);
        }
        for (unsigned t = 0; t < threads * blocks.size(); ++t) {
            if (!fibers[t].done) std::fprintf(stderr, "blocks wait for each other\n"), std::abort();
        }
    }
}
}  // namespace host

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
static inline unsigned atomicMin(unsigned *to, unsigned x) {
    const unsigned old = *to;
    if (x < old) *to = x;
    return old;
}
static inline unsigned atomicAdd(unsigned *to, unsigned x) {
    const unsigned old = *to;
    *to = old + x;
    return old;
}
static inline unsigned atomicInc(unsigned *to, unsigned last) {
    const unsigned old = *to;
    *to = old >= last ? 0 : old + 1;
    return old;
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int b = 0; b < 4; ++b) result |= (unsigned)(both >> 8 * (selector >> 4 * b & 7) & 255) << 8 * b;
    return result;
}
