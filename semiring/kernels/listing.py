"""Show the code of a semiring as text: its definition, vector instructions, CUDA C++, or machine code.

Each backend writes its own listings, and `code` selects one. No kernel runs, and no GPU is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from semiring.algebra import DTYPES, Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions import Expression
from semiring.errors import MissingExtraError, UnknownNameError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan

__all__ = ["LANGUAGES", "code"]

#: The languages that `code` can show, and their targets.
LANGUAGES = {
    "expression": "⊕, ⊗, their neutral elements and the star, as kernels compute them on the dtype",
    "llvm": "LLVM's intermediate code of a product on a CPU, optimised",
    "asm": "the machine code of a product on a CPU",
    "cuda": "⊕, ⊗ and the star as functions of CUDA C++, in the kernels that close matrices on a GPU",
    "ptx": "NVIDIA's intermediate code of a product on a GPU",
    "sass": "the machine code of a product on a GPU",
}


def code(
    semiring: Semiring | str,
    dtype: Any = "float64",
    language: str = "expression",
    *,
    target: str | None = None,
    nonnegative: bool = False,
    whole: bool = False,
) -> str:
    """Return the code that is generated for a semiring, as text.

    Parameters
    ----------
    semiring : Semiring or str
        A `Semiring`, your own too, or a name of the catalogue.
    dtype : dtype, default "float64"
        A dtype on which it is defined, also ``"float16"`` and ``"bfloat16"``, which a CPU computes in float32.
    language : str, default "expression"
        ``"expression"``: the operations as kernels compute them on the dtype. ``"llvm"``, ``"asm"``: a product on a
        CPU. ``"ptx"``, ``"sass"``: a product on a GPU, of large row-major matrices. ``"cuda"``: the functions in CUDA
        C++ that the kernels for closures call. The kernels for products are written in the CUTLASS Python DSL, which
        makes no C++.
    target : str, optional
        For ``"llvm"`` and ``"asm"`` a CPU by LLVM's name, such as ``"znver4"`` or ``"apple-m1"``, by default this one.
        For ``"ptx"`` and ``"sass"`` an architecture, such as ``"sm_80"``. By default it is that of the current GPU, and
        ``"sm_90a"`` without one. That GPU need not be present. The other languages have no target.
    nonnegative : bool, default False
        Take every weight for non-negative, as it is in the closures of min_plus. Integers then need no test for "no
        path", and a GPU compares floats as integers.
    whole : bool, default False
        Show the whole kernel instead of the loop over k, where a product spends its time. For ``"cuda"``, show the
        complete source, which NVRTC compiles, of the kernel that closes a block of up to 64 rows.

    Returns
    -------
    str
        The listing.

    Raises
    ------
    UnknownNameError
        For an unknown language, CPU or architecture.
    DTypeError
        If the semiring or the backend does not support the dtype.
    MissingExtraError
        If a compiler or a disassembler is not installed.
    AlgebraError
        For the whole source of a semiring without a star.
    ValueError
        For a target of a language that has none.

    Notes
    -----
    A listing for a GPU takes up to some seconds.

    Examples
    --------
    >>> print(code("min_plus", "float32"))
    x ⊕ y = min(x, y)
    x ⊗ y = x + y
    0̄ = inf
    1̄ = 0.0
    x* = where(x >= 0, 0, inf), none where ~(x >= 0)
    """
    if language not in LANGUAGES:
        raise UnknownNameError("language of code", language, LANGUAGES)
    plan = make_plan(as_semiring(semiring), _dtype(dtype), nonnegative=nonnegative, separate=True)
    if target is not None and language in ("expression", "cuda"):
        raise ValueError(f"target is {target!r}, and what is shown as {language} depends on no target")
    if language == "expression":
        return _expressions(plan)
    if language in ("llvm", "asm"):
        from semiring.kernels.cpu.listing import tile_code

        return tile_code(plan, language, target, whole)
    if language == "cuda":
        from semiring.kernels.cuda.listing import closure_source

        return closure_source(plan, whole)
    from semiring.kernels.cuda.listing import product_code

    return product_code(plan, language, target, whole)


def _dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype, after loading ml_dtypes for bfloat16, which NumPy lacks."""
    if dtype == "bfloat16":
        try:
            import_module("ml_dtypes")
        except ImportError as error:
            raise MissingExtraError("ml_dtypes", "cuda", "bfloat16") from error
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise UnknownNameError("dtype", str(dtype), (*DTYPES, "float16", "bfloat16")) from None
    return result


def _expressions(plan: KernelPlan) -> str:
    semiring, dtype = plan.semiring, plan.dtype
    definition = define(plan, closing=semiring.star_expression is not None)
    lines = [
        f"x ⊕ y = {definition.add}",
        f"x ⊗ y = {definition.mul}",
        f"0̄ = {definition.zero}",
        f"1̄ = {definition.one}",
    ]
    callers_zero = semiring.zero_for(dtype)
    if callers_zero != plan.zero:
        lines[2] += f", which callers write as {callers_zero}"
    if definition.contract:
        lines.append("x ⊕ y ⊗ z rounds once")
    if definition.star is not None:
        lines.append(f"x* = {_star(definition.star, definition.divergence)}")
    return "\n".join(lines)


def _star(star: Expression, divergence: Expression | None) -> str:
    return f"{star}" if divergence is None else f"{star}, none where {divergence}"
