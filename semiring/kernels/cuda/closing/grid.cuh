// Thread blocks of one cooperative launch wait for each other.
#pragma once

#ifndef ON_HOST
// A thread that reads the sum also sees the earlier writes of this block.
INLINE unsigned add_and_release(unsigned *to, unsigned x) {
    unsigned before;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(x) : "memory");
    return before;
}
INLINE unsigned acquire(const unsigned *from) {
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    return x;
}
#else
inline unsigned add_and_release(unsigned *to, unsigned x) {
    host::release(to);
    return atomicAdd(to, x);
}
inline unsigned acquire(const unsigned *from) {
    host::let_others_run();
    host::acquire(from);
    return *(const volatile unsigned *)from;
}
#endif

// ``count`` thread blocks, one of them the leader. The arrivals add up to the top bit alone, whose change all wait for.
INLINE void meet(unsigned *arrivals, bool leader, unsigned count) {
    const unsigned top = 1u << 31;
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned before = add_and_release(arrivals, leader ? top - (count - 1) : 1);
        while (!((acquire(arrivals) ^ before) & top)) {}
    }
    __syncthreads();
}
