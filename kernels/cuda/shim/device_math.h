/* Integer atomics, bit functions and rounding-named arithmetic of CUDA for g++: part of device.h; include shim.h. */
#ifndef IQ_CUDA_SHIM_DEVICE_MATH_H
#define IQ_CUDA_SHIM_DEVICE_MATH_H

/* ---- atomics: int, unsigned, unsigned long long. Out of line and not instrumented: the detector learns of them from
 * iq_shim_atomic, and nothing runs between the load and the store. ---- */

#define IQ__ATOMIC(name, result)                                                                             \
    template <class T>                                                                                       \
    __attribute__((noinline, no_sanitize("thread"))) static T name(T *p,                                     \
                                                                   typename std::common_type<T>::type v)     \
    {                                                                                                        \
        static_assert(std::is_integral<T>::value && sizeof(T) >= 4, "integers of 32 or 64 bits");            \
        iq_shim_atomic(p, sizeof *p);                                                                        \
        T old = *(volatile T *)p;                                                                            \
        *(volatile T *)p = (result);                                                                         \
        return old;                                                                                          \
    }
IQ__ATOMIC(atomicAdd, old + v)
IQ__ATOMIC(atomicSub, old - v)
IQ__ATOMIC(atomicMin, old < v ? old : v)
IQ__ATOMIC(atomicMax, old > v ? old : v)
IQ__ATOMIC(atomicAnd, old &v)
IQ__ATOMIC(atomicOr, old | v)
IQ__ATOMIC(atomicXor, old ^ v)
IQ__ATOMIC(atomicExch, v)
#undef IQ__ATOMIC

template <class T>
__attribute__((noinline, no_sanitize("thread"))) static T
atomicCAS(T *p, typename std::common_type<T>::type expected, typename std::common_type<T>::type v)
{
    static_assert(std::is_integral<T>::value && sizeof(T) >= 4, "integers of 32 or 64 bits");
    iq_shim_atomic(p, sizeof *p);
    T old = *(volatile T *)p;
    *(volatile T *)p = old == expected ? v : old;
    return old;
}

/* ---- loads, integers, bits ---- */

template <class T> static inline T __ldg(const T *p) { return *p; }

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

template <class To, class From> static inline To iq__bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float f) { return iq__bits<unsigned>(f); }
static inline int __float_as_int(float f) { return iq__bits<int>(f); }
static inline float __uint_as_float(unsigned u) { return iq__bits<float>(u); }
static inline float __int_as_float(int i) { return iq__bits<float>(i); }
static inline long long __double_as_longlong(double d) { return iq__bits<long long>(d); }
static inline double __longlong_as_double(long long i) { return iq__bits<double>(i); }

/* ---- arithmetic, nearest even: never contracted (-ffp-contract=off) ---- */

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

#endif
