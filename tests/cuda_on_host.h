// Just enough of CUDA to run a kernel on the host, one thread of one block at a time, each with a stack of its own.
//
// A barrier switches to the next thread of the block; blocks follow one another. The order of the threads and of the
// blocks is the caller's choice: what differs between two orders is a missing barrier, or a block that reads what
// another block of the same launch writes. An asynchronous copy happens when it is waited for, not before.
#include <cmath>
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
#define DYNAMIC_SHARED(name) unsigned char *name = host::pool
#define ON_HOST

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace host {
alignas(128) unsigned char pool[1 << 18];
struct Copy {
    void *to;
    const void *from;
    int bytes, size;
};
struct Fiber {
    ucontext_t context;
    dim3 index;
    bool done;
    std::vector<std::vector<Copy>> groups;
};
std::vector<Fiber> fibers;
ucontext_t scheduler;
unsigned current;
std::function<void()> body;

void switch_back() {
    swapcontext(&fibers[current].context, &scheduler);
    threadIdx = fibers[current].index;
}
void entry() {
    body();
    fibers[current].done = true;
    switch_back();
}
void copy(void *to, const void *from, int bytes, int size) {
    fibers[current].groups.back().push_back({to, from, bytes, size});
}
void commit() { fibers[current].groups.emplace_back(); }
void wait(unsigned pending) {
    auto &groups = fibers[current].groups;
    while (groups.size() > pending + 1) {
        for (const Copy &c : groups.front()) {
            std::memset(c.to, 0, c.size);
            if (c.bytes) std::memcpy(c.to, c.from, c.bytes);
        }
        groups.erase(groups.begin());
    }
}
void run(dim3 grid, dim3 block, bool backwards, std::function<void()> kernel) {
    static std::vector<unsigned char> stacks;
    const size_t stack = 1 << 16;
    const unsigned threads = block.x * block.y * block.z, blocks = grid.x * grid.y * grid.z;
    stacks.resize(stack * threads);
    fibers.assign(threads, Fiber{});
    body = kernel, gridDim = grid, blockDim = block;
    for (unsigned b = 0; b < blocks; ++b) {
        const unsigned which = backwards ? blocks - 1 - b : b;
        blockIdx = {which % grid.x, which / grid.x % grid.y, which / grid.x / grid.y};
        std::memset(pool, 0xCD, sizeof pool);
        for (unsigned t = 0; t < threads; ++t) {
            Fiber &fiber = fibers[t];
            fiber.index = {t % block.x, t / block.x % block.y, t / block.x / block.y};
            fiber.done = false;
            fiber.groups.assign(1, {});
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = &stacks[t * stack];
            fiber.context.uc_stack.ss_size = stack;
            makecontext(&fiber.context, entry, 0);
        }
        for (unsigned left = threads; left;) {
            left = 0;
            for (unsigned t = 0; t < threads; ++t) {
                current = backwards ? threads - 1 - t : t;
                if (fibers[current].done) continue;
                threadIdx = fibers[current].index;
                swapcontext(&scheduler, &fibers[current].context);
                left += !fibers[current].done;
            }
        }
    }
}
}  // namespace host

static inline void __syncthreads() { host::switch_back(); }
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
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int b = 0; b < 4; ++b) result |= (unsigned)(both >> 8 * (selector >> 4 * b & 7) & 255) << 8 * b;
    return result;
}
