"""Provide the public functions of dense linear algebra over any semiring.

Every function validates its arguments, returns trivial results directly, and calls the kernels for all other results.
Operands are everything that `semiring.arrays.operands` reads. Results are in the library of the operands, and in
NumPy's promotion of their dtypes.
"""

from semiring.linalg.elementwise import add, identity, multiply, reduce, zeros
from semiring.linalg.products import matmul, power
from semiring.linalg.sequences import multi_dot, scan

__all__ = [
    "add",
    "identity",
    "matmul",
    "multi_dot",
    "multiply",
    "power",
    "reduce",
    "scan",
    "zeros",
]
