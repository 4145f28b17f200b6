// Vectors of elements, and asynchronous copies of vectors into shared memory.
#pragma once

template <int N> struct __align__(sizeof(element) * N > 16 ? 16 : sizeof(element) * N) Vector {
    element v[N];
};

template <int N> INLINE Vector<N> load(const element *source) { return *(const Vector<N> *)source; }
template <int N> INLINE void store(element *target, const Vector<N> &x) { *(Vector<N> *)target = x; }

// Hide the origin of the pointer, so that the compiler does not keep addresses derived from it in registers.
INLINE void forget(element *&pointer) {
#ifndef ON_HOST
    asm volatile("" : "+l"(pointer));
#endif
}

#ifndef ON_HOST
// Copy 4, 8 or 16 bytes. Copies of 16 bytes bypass the L1 cache, which would otherwise hold lines that are soon
// replaced.
template <int BYTES> INLINE void copy_piece(void *target, const void *source) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(target);
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(source) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(source), "n"(BYTES) : "memory");
    }
}
INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Wait until at most PENDING of the most recent groups are incomplete.
template <int PENDING> INLINE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
#else
template <int BYTES> void copy_piece(void *target, const void *source) { host::copy(target, source, BYTES, BYTES); }
inline void commit_copies() { host::commit(); }
template <int PENDING> void wait_for_copies() { host::wait(PENDING); }
#endif

// Copy four elements.
INLINE void copy_four(element *target, const element *source) {
    if (sizeof(element) <= 4) {
        copy_piece<sizeof(element) <= 4 ? 4 * sizeof(element) : 16>(target, source);
    } else {
        copy_piece<16>(target, source);
        copy_piece<16>(target + 2, source + 2);
    }
}
