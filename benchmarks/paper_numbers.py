"""List the numbers that four papers report, as they print them, for the tables of `benchmarks.papers`.

B. D. Lund, J. W. Smith (2010), table 1. A. Buluç, J. R. Gilbert, C. Budak (2010), tables 1 to 4, 8 and 9. D. Bertoldi,
tables 4 and 5. Gaioso and others (2013), whose times are in figures only, so that the ratios of the text remain.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    *("BERTOLDI_BLOCKS", "BERTOLDI_THREADS", "BULUC_ENERGY", "BULUC_GPU", "BULUC_GROWTH", "BULUC_HOST"),
    *("BULUC_PARALLEL", "BULUC_SPEEDUP", "GAIOSO_RATIOS", "LUND_SMITH"),
]

#: Lund and Smith, table 1: seconds on a Tesla C1060 by vertices, columns as the methods are named here.
LUND_SMITH: Mapping[str, Mapping[int, float]] = {
    "CPU": {1024: 2.405, 2048: 18.38, 3072: 62.04, 4096: 145.2},
    "harish_narayanan": {
        **{1024: 0.408, 2048: 3.212, 3072: 10.99, 4096: 26.05, 5120: 50.87, 6144: 87.9, 8192: 208.6},
    },
    "katz_kider": {
        **{1024: 0.108, 2048: 0.65, 3072: 2.01, 4096: 4.62, 5120: 8.84, 6144: 15.09, 7168: 23.82, 8192: 35.37},
        **{9216: 50.24, 10240: 68.67, 11264: 91.08, 16384: 277.8},
    },
    "lund_smith_unrolled": {
        **{1024: 0.0428, 2048: 0.282, 3072: 0.653, 4096: 2.06, 5120: 4.02, 6144: 6.89, 7168: 10.9, 8192: 16.39},
        **{9216: 23.05, 10240: 31.52, 11264: 41.82, 12288: 54.05, 13312: 68.56, 14336: 85.56, 16384: 126.9},
    },
    "lund_smith": {
        **{1024: 0.0274, 2048: 0.14, 3072: 0.401, 4096: 0.934, 5120: 1.76, 6144: 2.98, 7168: 4.65, 8192: 6.88},
        **{9216: 9.71, 10240: 13.22, 11264: 17.48, 12288: 22.67, 13312: 28.63, 14336: 36.7, 15360: 43.74},
        **{16384: 53.02, 17408: 63.4},
    },
}

#: Buluç et al., table 1: milliseconds on a GeForce 8800 Ultra.
BULUC_GPU: Mapping[str, Mapping[int, float]] = {
    "buluc_iterative": {512: 2.51e2, 1024: 2.42e3, 2048: 4.60e4, 4096: 4.13e5, 8192: 5.47e6},
    "rkleene_plain": {512: 1.62e1, 1024: 1.00e2, 2048: 7.46e2, 4096: 5.88e3, 8192: 5.57e4},
    "rkleene": {512: 6.43, 1024: 2.44e1, 2048: 1.41e2, 4096: 1.01e3, 8192: 7.87e3},
}

#: Table 2: the speedup over the best CPU code, one core.
BULUC_SPEEDUP: Mapping[str, Mapping[int, float]] = {
    "buluc_iterative": {512: 3.1, 1024: 3.0, 2048: 1.3, 4096: 1.2, 8192: 0.7},
    "rkleene_plain": {512: 48.1, 1024: 73.4, 2048: 79.6, 4096: 81.5, 8192: 67.7},
    "rkleene": {512: 121.4, 1024: 301.5, 2048: 420.7, 4096: 473.2, 8192: 479.3},
}

#: Table 3: exponent and constant of t = c·nᵇ, t in milliseconds.
BULUC_GROWTH: Mapping[str, tuple[float, float]] = {
    "serial, iterative": (3.02, 5.5e-6),
    "serial, recursive": (3.23, 1.4e-6),
    "buluc_iterative": (3.62, 3.6e-8),
    "rkleene_plain": (2.94, 1.5e-7),
    "rkleene": (2.59, 4.7e-7),
}

#: Table 4: seconds of the parallel recursion on 16 Opteron cores, by Cilk++.
BULUC_PARALLEL: Mapping[int, float] = {512: 0.113, 1024: 0.708, 2048: 5.146, 4096: 40.36, 8192: 354.9}

#: Table 8: millions of pairs a joule, of the GPU and of Neumann, from the watts of data sheets. The paper counts a pair
#: as one operation.
BULUC_ENERGY: Mapping[str, Mapping[int, float]] = {
    "GPU": {512: 173, 1024: 368, 2048: 510, 4096: 569},
    "host": {512: 2.9, 1024: 3.7, 2048: 4.1, 4096: 4.2},
}

#: Table 9: milliseconds on one core of an Intel Core 2 Duo.
BULUC_HOST: Mapping[str, Mapping[int, float]] = {
    "iterative": {512: 8.43e2, 1024: 7.40e3, 2048: 5.94e4, 4096: 4.79e5, 8192: 3.77e6},
    "recursive": {512: 7.81e2, 1024: 7.35e3, 2048: 7.98e4, 4096: 7.20e5, 8192: 5.82e6},
}

#: Bertoldi, table 4: milliseconds of the OpenMP loop on an Intel Core i7-9700K, by vertices and threads.
BERTOLDI_THREADS: Mapping[int, Mapping[int, float]] = {
    1000: {2: 541, 4: 364, 8: 158},
    2000: {2: 4365, 4: 2921, 8: 1260},
    5000: {2: 69590, 4: 46443, 8: 19496},
    7500: {2: 230260, 4: 155531, 8: 65118},
    10000: {2: 543900, 4: 367434, 8: 153682},
    12500: {2: 1063129, 4: 716363, 8: 299006},
}

#: Table 5: milliseconds on an RTX 2070 Super, by vertices and threads of a block. The last line prints 125000.
BERTOLDI_BLOCKS: Mapping[int, Mapping[int, float]] = {
    1000: {1024: 24, 256: 19, 32: 53},
    2000: {1024: 219, 256: 186, 32: 356},
    5000: {1024: 2818, 256: 2709, 32: 4966},
    7500: {1024: 9894, 256: 9044, 32: 16297},
    10000: {1024: 22190, 256: 21392, 32: 38208},
    12500: {1024: 42955, 256: 41460, 32: 75034},
}

#: Gaioso and others: how many times as fast as another code, by vertices (0: the mean that the text states).
GAIOSO_RATIOS: Mapping[str, Mapping[int, float]] = {
    "serial": {8192: 149, 16384: 195},
    "harish_narayanan": {0: 4, 16384: 4},
    "katz_kider": {0: 1.8},
}
