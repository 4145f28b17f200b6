"""Dense linear algebra over any semiring: what users call.

Every function reads: check the arguments → return what is trivial → hand the rest to the kernels. Operands are anything
`semiring.arrays.operands` can read; results come back in the library of the operands, in NumPy's promotion of their
dtypes.
"""

from semiring.linalg.blas import axpy, dot, gemm, gemv, ger
from semiring.linalg.elementwise import add, identity, multiply, reduce, zeros
from semiring.linalg.products import matmul, matmul_witness, power
from semiring.linalg.sequences import multi_dot, multi_dot_witness, scan

__all__ = [
    "add",
    "axpy",
    "dot",
    "gemm",
    "gemv",
    "ger",
    "identity",
    "matmul",
    "matmul_witness",
    "multi_dot",
    "multi_dot_witness",
    "multiply",
    "power",
    "reduce",
    "scan",
    "zeros",
]
