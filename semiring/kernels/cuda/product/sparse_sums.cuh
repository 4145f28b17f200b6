// Sums of terms with witnesses, for products of sparse matrices by compressed rows. Kernels are compiled for the macros
// that sparse_rows.py passes: the types of the columns of A, inner_t, and of the other columns, column_t; the type of
// witnesses, WITNESS, which is absent without witnesses; and sizes.
//
// Identical input gives identical results: no value is added by an atomic operation. Within an entry, terms are added
// in the order of k (multiply_rows, sort_rows, fold_runs), or first by the lanes of a team, each in the order of k, and
// then lane by lane along a tree that the sizes alone fix (multiply_vector, sample_rows, and rows of more than LONG
// entries).
#pragma once
#include "semiring.cuh"

#define FULL 0xffffffffu
#ifndef LANES
#define LANES 32  // of a team, which computes one row, or one entry; a power of two
#endif

// ------------------------------------------------------------------------------------------------ shuffles

template <int SIZE> struct Word { typedef unsigned type; };
template <> struct Word<8> { typedef unsigned long long type; };

// Return the value of another lane of the warp, of any type of up to 8 bytes.
template <class T> INLINE T of_lane(T x, int lane) {
    union { T value; typename Word<sizeof(T)>::type word; } in, out;
    in.word = 0;
    in.value = x;
    out.word = __shfl_sync(FULL, in.word, lane);
    return out.value;
}

// ------------------------------------------------------------------------------------------------ sums and witnesses

#ifdef WITNESS
typedef WITNESS witness_t;
#else
typedef int witness_t;
#endif

#if defined(LOG_SUMS) && !defined(WITNESS)
// A sum log Σ exp(terms), of real numbers and without a witness: the greatest term, and Σ exp(term - greatest) over the
// remaining terms. So each term takes one exponential, and each entry one logarithm.
struct Sum {
    element greatest, remaining;
};

INLINE Sum no_term() {
    Sum sum;
    sum.greatest = ZERO, sum.remaining = 0;
    return sum;
}

INLINE void add_sum(Sum &sum, const Sum &other) {
    const bool is_greater = other.greatest > sum.greatest;
    const element distance = is_greater ? sum.greatest - other.greatest : other.greatest - sum.greatest;
    const element ratio = other.greatest == sum.greatest ? (element)1 : exp_(distance);  // ∞ - ∞ is NaN
    sum.remaining = is_greater ? (sum.remaining + 1) * ratio + other.remaining : sum.remaining + (other.remaining + 1) * ratio;
    if (is_greater) sum.greatest = other.greatest;
}

INLINE void add_term(Sum &sum, element term, long long k) {
    Sum other;
    other.greatest = term, other.remaining = 0;
    add_sum(sum, other);
}

INLINE element value_of(const Sum &sum) { return sum.greatest + log1p_(sum.remaining); }

INLINE Sum sum_of_lane(const Sum &sum, int lane) {
    Sum other;
    other.greatest = of_lane(sum.greatest, lane), other.remaining = of_lane(sum.remaining, lane);
    return other;
}
#else
// The sum of some terms of an entry, and the witness: the least k whose term is strictly better than all earlier terms.
struct Sum {
    element value;
#ifdef WITNESS
    witness_t k;
#endif
};

INLINE Sum no_term() {
    Sum sum;
    sum.value = ZERO;
#ifdef WITNESS
    sum.k = -1;
#endif
    return sum;
}

INLINE void add_term(Sum &sum, element term, long long k) {
    const element better = plus(sum.value, term);
#ifdef WITNESS
    if (ne(better, sum.value)) sum.value = term, sum.k = (witness_t)k;
#else
    sum.value = better;
#endif
}

// Add the sum of other terms, whose k may lie anywhere: of equal terms the least k stays.
INLINE void add_sum(Sum &sum, const Sum &other) {
    const element better = plus(sum.value, other.value);
#ifdef WITNESS
    const bool is_better = ne(better, sum.value), is_equal = !is_better && eq(sum.value, other.value);
    const bool is_earlier = is_equal && other.k >= 0 && (sum.k < 0 || other.k < sum.k);
    if (is_better) sum.value = other.value;
    if (is_better || is_earlier) sum.k = other.k;
#else
    sum.value = better;
#endif
}

INLINE element value_of(const Sum &sum) { return sum.value; }

INLINE Sum sum_of_lane(const Sum &sum, int lane) {
    Sum other;
    other.value = of_lane(sum.value, lane);
#ifdef WITNESS
    other.k = of_lane(sum.k, lane);
#endif
    return other;
}
#endif

// Add the sums of all lanes of a team, along a tree. The first lane has the result.
INLINE void add_lanes(Sum &sum, int lane, int lanes) {
    for (int distance = lanes / 2; distance; distance /= 2) add_sum(sum, sum_of_lane(sum, (lane & 31) ^ distance));
}

#ifdef WITNESS
#define WRITE_SUM(values, witnesses, place, sum) (values)[place] = value_of(sum), (witnesses)[place] = (sum).k
#else
#define WRITE_SUM(values, witnesses, place, sum) (values)[place] = value_of(sum)
#endif

#ifdef SWAPPED  // the dense operand is the left one
#define TERM(sparse, dense) times(dense, sparse)
#else
#define TERM(sparse, dense) times(sparse, dense)
#endif

// Return the first place of an ascending array from ``first`` on that holds ``key`` or more.
template <class T> INLINE long long lower_bound(const T *keys, long long first, long long last, T key) {
    while (first < last) {
        const long long middle = (first + last) >> 1;
        if (keys[middle] < key) first = middle + 1;
        else last = middle;
    }
    return first;
}
// Return the row of an entry: the last row that starts at or before it.
INLINE long long row_of(const long long *starts, long long first, long long last, long long entry) {
    while (first < last) {
        const long long middle = (first + last + 1) >> 1;
        if (starts[middle] <= entry) first = middle;
        else last = middle - 1;
    }
    return first;
}
