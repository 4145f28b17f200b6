// The operations of an expression on the elements of one dtype. The printer writes calls of these functions. This file
// alone defines their meaning, which is that of NumPy's fmin, fmax, + and so on:
//
//   * Every operation rounds separately. Modules are compiled with --fmad=false unless the semiring requests
//     contraction.
//   * min and max drop a NaN. A comparison with a NaN is false, except !=.
//   * Integers wrap around. The result of each operation on narrow integers is truncated to their width.
//   * Operations +, -, *, / and sqrt in half precision are correctly rounded. float32 has more than twice the digits of
//     float16, so that rounding to float32 first does not change the result.
#pragma once

#define INLINE __device__ __forceinline__
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

typedef unsigned char byte_t;  // uint8, and bool as 0 or 1
typedef unsigned int word_t;   // 32 truth values

struct half_t {
    unsigned short bits;
};

// ---------------------------------------------------------------------------------------------- floating point

INLINE float add(float x, float y) { return x + y; }
INLINE float sub(float x, float y) { return x - y; }
INLINE float mul(float x, float y) { return x * y; }
INLINE float div(float x, float y) { return x / y; }
INLINE float neg(float x) { return -x; }
INLINE float abs_(float x) { return fabsf(x); }
INLINE float min_(float x, float y) { return fminf(x, y); }
INLINE float max_(float x, float y) { return fmaxf(x, y); }
INLINE float exp_(float x) { return expf(x); }
INLINE float expm1_(float x) { return expm1f(x); }
INLINE float log_(float x) { return logf(x); }
INLINE float log1p_(float x) { return log1pf(x); }
INLINE float sqrt_(float x) { return sqrtf(x); }
INLINE float floor_(float x) { return floorf(x); }

INLINE double add(double x, double y) { return x + y; }
INLINE double sub(double x, double y) { return x - y; }
INLINE double mul(double x, double y) { return x * y; }
INLINE double div(double x, double y) { return x / y; }
INLINE double neg(double x) { return -x; }
INLINE double abs_(double x) { return fabs(x); }
INLINE double min_(double x, double y) { return fmin(x, y); }
INLINE double max_(double x, double y) { return fmax(x, y); }
INLINE double exp_(double x) { return exp(x); }
INLINE double expm1_(double x) { return expm1(x); }
INLINE double log_(double x) { return log(x); }
INLINE double log1p_(double x) { return log1p(x); }
INLINE double sqrt_(double x) { return sqrt(x); }
INLINE double floor_(double x) { return floor(x); }

// The same where x is no NaN. fmin takes a comparison, two selections, one more instruction for a NaN, and moves.
INLINE double min_defined(double x, double y) { return y < x ? y : x; }
INLINE double max_defined(double x, double y) { return y > x ? y : x; }

// Compare non-negative floats by their bits, which are integers in the same order. A minimum of integers is one
// instruction with up to three operands. NaN sorts last.
INLINE float min_ordered(float x, float y) {
    int a = __float_as_int(x), b = __float_as_int(y);
    return __int_as_float(a < b ? a : b);
}
INLINE float max_ordered(float x, float y) {
    int a = __float_as_int(x), b = __float_as_int(y);
    return __int_as_float(a > b ? a : b);
}

#ifdef HALF
INLINE float widen(half_t x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
INLINE half_t narrow(float x) {
    half_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
#define HALF_INSTRUCTION(name, instruction)                                              \
    INLINE half_t name(half_t x, half_t y) {                                             \
        half_t z;                                                                        \
        asm(instruction " %0, %1, %2;" : "=h"(z.bits) : "h"(x.bits), "h"(y.bits));       \
        return z;                                                                        \
    }
HALF_INSTRUCTION(add, "add.rn.f16")
HALF_INSTRUCTION(sub, "sub.rn.f16")
HALF_INSTRUCTION(mul, "mul.rn.f16")
HALF_INSTRUCTION(min_, "min.f16")
HALF_INSTRUCTION(max_, "max.f16")
INLINE half_t div(half_t x, half_t y) { return narrow(widen(x) / widen(y)); }
INLINE half_t neg(half_t x) { return half_t{(unsigned short)(x.bits ^ 0x8000)}; }
INLINE half_t abs_(half_t x) { return half_t{(unsigned short)(x.bits & 0x7FFF)}; }
INLINE half_t exp_(half_t x) { return narrow(expf(widen(x))); }
INLINE half_t expm1_(half_t x) { return narrow(expm1f(widen(x))); }
INLINE half_t log_(half_t x) { return narrow(logf(widen(x))); }
INLINE half_t log1p_(half_t x) { return narrow(log1pf(widen(x))); }
INLINE half_t sqrt_(half_t x) { return narrow(sqrtf(widen(x))); }
INLINE half_t floor_(half_t x) { return narrow(floorf(widen(x))); }
INLINE bool lt(half_t x, half_t y) { return widen(x) < widen(y); }
INLINE bool le(half_t x, half_t y) { return widen(x) <= widen(y); }
INLINE bool gt(half_t x, half_t y) { return widen(x) > widen(y); }
INLINE bool ge(half_t x, half_t y) { return widen(x) >= widen(y); }
INLINE bool eq(half_t x, half_t y) { return widen(x) == widen(y); }
INLINE bool ne(half_t x, half_t y) { return widen(x) != widen(y); }
#endif

// -------------------------------------------------------------------------------------------------- integers

// The arithmetic uses the unsigned type, where wrapping is defined.
#define INTEGER(type, wide)                                                              \
    INLINE type add(type x, type y) { return (type)((wide)x + (wide)y); }                \
    INLINE type sub(type x, type y) { return (type)((wide)x - (wide)y); }                \
    INLINE type mul(type x, type y) { return (type)((wide)x * (wide)y); }                \
    INLINE type neg(type x) { return (type)(0 - (wide)x); }                              \
    INLINE type min_(type x, type y) { return x < y ? x : y; }                           \
    INLINE type max_(type x, type y) { return x > y ? x : y; }                           \
    INLINE type and_(type x, type y) { return (type)(x & y); }                           \
    INLINE type or_(type x, type y) { return (type)(x | y); }                            \
    INLINE type xor_(type x, type y) { return (type)(x ^ y); }                           \
    INLINE type invert(type x) { return (type)~x; }
INTEGER(short, unsigned int)
INTEGER(int, unsigned int)
INTEGER(long long, unsigned long long)
INTEGER(word_t, word_t)
INLINE short abs_(short x) { return x < 0 ? neg(x) : x; }
INLINE int abs_(int x) { return x < 0 ? neg(x) : x; }
INLINE long long abs_(long long x) { return x < 0 ? neg(x) : x; }
#ifndef BOOLEAN
INTEGER(byte_t, unsigned int)
INLINE byte_t abs_(byte_t x) { return x; }
#else
INLINE byte_t min_(byte_t x, byte_t y) { return x & y; }
INLINE byte_t max_(byte_t x, byte_t y) { return x | y; }
INLINE byte_t and_(byte_t x, byte_t y) { return x & y; }
INLINE byte_t or_(byte_t x, byte_t y) { return x | y; }
INLINE byte_t xor_(byte_t x, byte_t y) { return x ^ y; }
INLINE byte_t invert(byte_t x) { return x ^ 1; }
#endif

// ------------------------------------------------------------------------------------- comparisons and truths

template <class T> INLINE bool lt(T x, T y) { return x < y; }
template <class T> INLINE bool le(T x, T y) { return x <= y; }
template <class T> INLINE bool gt(T x, T y) { return x > y; }
template <class T> INLINE bool ge(T x, T y) { return x >= y; }
template <class T> INLINE bool eq(T x, T y) { return x == y; }
template <class T> INLINE bool ne(T x, T y) { return x != y; }
INLINE bool and_(bool x, bool y) { return x & y; }
INLINE bool or_(bool x, bool y) { return x | y; }
INLINE bool xor_(bool x, bool y) { return x ^ y; }
INLINE bool invert(bool x) { return !x; }
template <class T> INLINE T where(bool condition, T x, T y) { return condition ? x : y; }
