"""List the numbers that four papers print, digit by digit, for the tables of `benchmarks.paper_tables`.

A number is the text of the paper, without grouping: the paper's 2.51×10² milliseconds are "251". Columns have the names
of the methods here. "-" is what a paper leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    *("BERTOLDI_BLOCKS", "BERTOLDI_MPI", "BERTOLDI_RANKS", "BERTOLDI_SERIAL", "BERTOLDI_THREADS"),
    *("BULUC_ENERGY", "BULUC_GPU", "BULUC_GROWTH", "BULUC_HOST", "BULUC_PARALLEL", "BULUC_SPEEDUP", "BULUC_WATTS"),
    *("GAIOSO_MEANS", "GAIOSO_RATIOS", "LUND_SMITH", "LUND_SMITH_RATES", "Numbers"),
]

#: The numbers of one column of a table, by the number of vertices, ranks or threads in its first column.
Numbers = Mapping[int, str]


def _columns(text: str) -> dict[str, dict[int, str]]:
    """Return the columns of a table by name, each by the first column."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    return {name: {int(row[0]): row[i] for row in rows if row[i] != "-"} for i, name in enumerate(head) if i}


#: Lund and Smith, table 1: seconds on a Tesla C1060, and on one core of an AMD Phenom 9950.
LUND_SMITH = _columns("""
vertices  CPU  harish_narayanan  katz_kider  lund_smith_unrolled  lund_smith
1024  2.405  0.408  0.108  0.0428  0.0274
2048  18.38  3.212  0.65   0.282   0.14
3072  62.04  10.99  2.01   0.653   0.401
4096  145.2  26.05  4.62   2.06    0.934
5120  -      50.87  8.84   4.02    1.76
6144  -      87.9   15.09  6.89    2.98
7168  -      -      23.82  10.9    4.65
8192  -      208.6  35.37  16.39   6.88
9216  -      -      50.24  23.05   9.71
10240 -      -      68.67  31.52   13.22
11264 -      -      91.08  41.82   17.48
12288 -      -      -      54.05   22.67
13312 -      -      -      68.56   28.63
14336 -      -      -      85.56   36.7
15360 -      -      -      -       43.74
16384 -      -      277.8  126.9   53.02
17408 -      -      -      -       63.4
""")

#: Lund and Smith, sections 3.1, 3.2 and 5: 10⁹ tasks a second, and GB/s.
LUND_SMITH_RATES: Mapping[str, tuple[str, str]] = {
    "harish_narayanan": ("2.6", "42"),
    "katz_kider": ("14.9", "—"),
    "lund_smith": ("73.6", "46"),
}

#: Buluç et al., table 1: milliseconds on a GeForce 8800 Ultra.
BULUC_GPU = _columns("""
vertices  buluc_iterative  rkleene_plain  rkleene
512   251      16.2   6.43
1024  2420     100    24.4
2048  46000    746    141
4096  413000   5880   1010
8192  5470000  55700  7870
""")

#: Table 2: the speedup with respect to the best CPU implementation, which runs on one core.
BULUC_SPEEDUP = _columns("""
vertices  buluc_iterative  rkleene_plain  rkleene
512   3.1  48.1  121.4
1024  3.0  73.4  301.5
2048  1.3  79.6  420.7
4096  1.2  81.5  473.2
8192  0.7  67.7  479.3
""")

#: Table 3: exponent and constant of t = c·nᵇ, t in milliseconds.
BULUC_GROWTH: Mapping[str, tuple[str, str]] = {
    "three loops, one core": ("3.02", "5.5e-06"),
    "rkleene, one core": ("3.23", "1.4e-06"),
    "buluc_iterative": ("3.62", "3.6e-08"),
    "rkleene_plain": ("2.94", "1.5e-07"),
    "rkleene": ("2.59", "4.7e-07"),
}

#: Table 4: seconds of the best GPU code and of the Cilk++ code on 16 Opteron cores, and the speedup.
BULUC_PARALLEL = _columns("""
vertices  GPU  CPU  speedup
512   0.00643  0.113  17.5
1024  0.0244   0.708  29
2048  0.141    5.146  36.5
4096  1.01     40.36  40
8192  7.87     354.9  45
""")

#: Table 8: "MFlops/Joule" of the GPU and of Neumann, the host with 16 cores. A pair is two operations there, and
#: 10⁶ operations are 2³⁰ / 1000.
BULUC_ENERGY = _columns("""
vertices  GPU  Neumann
512   173  2.9
1024  368  3.7
2048  510  4.1
4096  569  4.2
""")

#: Section 4.6, by data sheets: the card and half an Opteron in watts, and the eight Opterons of Neumann at 95 W each.
BULUC_WATTS: Mapping[str, float] = {"GPU": 222.5, "Neumann": 760.0}

#: Table 9: milliseconds on one core of an Intel Core 2 Duo.
BULUC_HOST = _columns("""
vertices  iterative  recursive
512   843      781
1024  7400     7350
2048  59400    79800
4096  479000   720000
8192  3770000  5820000
""")

#: Bertoldi, table 2: milliseconds of the serial loop on an Intel Core i7-9700K.
BERTOLDI_SERIAL: Numbers = {
    **{1000: "1095", 2000: "8860", 5000: "138643", 7500: "468750", 10000: "1112111", 12500: "2170138"},
}

#: Table 3: milliseconds of algorithm 2 at 5,040 vertices, by processes.
BERTOLDI_RANKS: Numbers = {
    **{1: "145447", 2: "75059", 3: "52336", 4: "39962", 5: "33184", 6: "28731", 7: "25853", 8: "23120"},
}

#: Table 3: the percentage of the time that initialization and communication take, by processes.
BERTOLDI_MPI: Numbers = {
    **{1: "0.06", 2: "2.57", 3: "4.45", 4: "5.47", 5: "6.95", 6: "8.35", 7: "9.50", 8: "11.00"},
}

#: Table 4: milliseconds of the OpenMP loop on the same processor, by vertices; the columns are threads.
BERTOLDI_THREADS = _columns("""
vertices  2  4  8
1000   541      364     158
2000   4365     2921    1260
5000   69590    46443   19496
7500   230260   155531  65118
10000  543900   367434  153682
12500  1063129  716363  299006
""")

#: Table 5: milliseconds on an RTX 2070 Super, by vertices; the columns are threads of a block. The last row of the
#: paper reads 125000 vertices.
BERTOLDI_BLOCKS = _columns("""
vertices  1024  256  32
1000   24     19     53
2000   219    186    356
5000   2818   2709   4966
7500   9894   9044   16297
10000  22190  21392  38208
12500  42955  41460  75034
""")

#: Gaioso et al., sections I and VII: how many times as fast as another code, by vertices.
GAIOSO_RATIOS: Mapping[str, Numbers] = {
    "three loops": {8192: "149", 16384: "195"},
    "harish_narayanan": {16384: "4"},
    "katz_kider": {},
}
#: The means over the graphs, which the abstract and section VIII state.
GAIOSO_MEANS: Mapping[str, str] = {"harish_narayanan": "≈4", "katz_kider": "≈1.8"}
