// Barriers between the thread blocks of one cooperative launch.
#pragma once

#ifndef ON_HOST
// Add to a counter with release order. A thread that acquires the sum also sees the earlier writes of this block.
INLINE unsigned add_and_release(unsigned *counter, unsigned x) {
    unsigned previous;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(previous) : "l"(counter), "r"(x) : "memory");
    return previous;
}
INLINE unsigned acquire(const unsigned *counter) {
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(counter) : "memory");
    return x;
}
#else
inline unsigned add_and_release(unsigned *counter, unsigned x) {
    host::release(counter);
    return atomicAdd(counter, x);
}
inline unsigned acquire(const unsigned *counter) {
    host::let_others_run();
    host::acquire(counter);
    return *(const volatile unsigned *)counter;
}
#endif

// Wait until all ``count`` thread blocks arrive, exactly one of which is the leader. All arrivals together add 2^31,
// which flips only the top bit. Every block waits for that flip.
INLINE void meet(unsigned *arrivals, bool leader, unsigned count) {
    const unsigned top = 1u << 31;
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned previous = add_and_release(arrivals, leader ? top - (count - 1) : 1);
        while (!((acquire(arrivals) ^ previous) & top)) {}
    }
    __syncthreads();
}
