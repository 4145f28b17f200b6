// Vectors of elements, and asynchronous copies of them into shared memory.
#pragma once

template <int N> struct __align__(sizeof(element) * N > 16 ? 16 : sizeof(element) * N) Vector {
    element v[N];
};

template <int N> INLINE Vector<N> load(const element *from) { return *(const Vector<N> *)from; }
template <int N> INLINE void store(element *to, const Vector<N> &x) { *(Vector<N> *)to = x; }

// The compiler no longer knows where this pointer comes from.
INLINE void forget(element *&pointer) {
#ifndef ON_HOST
    asm volatile("" : "+l"(pointer));
#endif
}

#ifndef ON_HOST
// A piece of 4, 8 or 16 bytes; those of 16 pass by the first-level cache, which would keep what they replace.
template <int BYTES> INLINE void copy_piece(void *to, const void *from) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(BYTES) : "memory");
    }
}
INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most PENDING of the groups committed last are still under way.
template <int PENDING> INLINE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
#else
template <int BYTES> void copy_piece(void *to, const void *from) { host::copy(to, from, BYTES, BYTES); }
inline void commit_copies() { host::commit(); }
template <int PENDING> void wait_for_copies() { host::wait(PENDING); }
#endif

// Four elements.
INLINE void copy_four(element *to, const element *from) {
    if (sizeof(element) <= 4) {
        copy_piece<sizeof(element) <= 4 ? 4 * sizeof(element) : 16>(to, from);
    } else {
        copy_piece<16>(to, from);
        copy_piece<16>(to + 2, from + 2);
    }
}
