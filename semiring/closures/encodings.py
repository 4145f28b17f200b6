"""Encode a problem: reversible changes of the entries, in the order in which they are tried.

An encoding is a function of a problem. It returns the encoded problem, or the reason why it does not apply. It changes
no entry: it adds a map, and the entries are read once through all maps when the algorithm runs. The closed matrix is
read back through their inverses. The map of potentials finds them when it is bound, so an algorithm that reads the
caller's entries never pays for them.

Cost: at most one pass to encode and one to decode, for all encodings together. Rounding: docs/rounding.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus, path_counts
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.methods import is_structural, may_choose, method_named
from semiring.algorithms.narrow_integers import find_narrow_dtype
from semiring.algorithms.ordered_integers import has_integer_order, has_min_and_max
from semiring.algorithms.potentials.scales import has_factors
from semiring.algorithms.stars import counts_paths
from semiring.arrays.encoding import inner_zero, next_wider_integer
from semiring.arrays.operands import is_same_memory
from semiring.arrays.parts import any_true, parts
from semiring.closures.entry_maps import (
    NEGATION,
    POSITIVE_ZEROS,
    FactorScaling,
    OrderedIntegers,
    PotentialShift,
    guard_against_negative_weights,
)
from semiring.closures.matrix import CallMap, EncodedMatrix, EntryMap
from semiring.closures.problem import Options, Problem, is_tropical
from semiring.errors import AlgebraError, DTypeError, IntegerOverflowError
from semiring.kernels import can_pack
from semiring.kernels.machines import closure_speed
from semiring.namespaces import is_device_array

__all__ = ["ENCODINGS", "encodings_for", "half_precision", "is_near_no_path", "stays_float16", "wider_integers"]

Encoding: TypeAlias = Callable[[Problem], Problem | str]

_WIDE = np.dtype(np.int64)
_SHIFT = CallMap(lambda facts: PotentialShift(facts.potentials))
_SCALING = CallMap(lambda facts: FactorScaling(facts.factors, facts.semiring))


# ------------------------------------------------------------------------------------------------------------- halves


def stays_float16(dtype: np.dtype[Any], options: Options) -> bool:
    """Return whether kernels for float16 may close the matrix: nothing is rounded, or the caller requested it."""
    return dtype == np.float16 and (options.compute_dtype is not None or has_min_and_max(options.semiring))


def half_precision(p: Problem) -> Problem | str:
    """Close float16 and bfloat16 in float32, and round the result once.

    Sums along a long path would lose the few digits of these dtypes. If ⊕ and ⊗ only select, nothing is rounded, and a
    GPU or a run by strips keeps float16. With ``compute_dtype="float16"`` they keep it too, and round every sum.

    Cost: a copy in float32. Raises `AlgebraError` if strips cannot hold float32, and `DTypeError` if ``compute_dtype=``
    is not supported.
    """
    facts, options = p.facts, p.options
    requested, dtype, strips = options.compute_dtype, facts.dtype, facts.strips
    if requested is not None and dtype != requested:
        raise DTypeError(f"compute_dtype is {requested}, and A is {dtype}: leave it out, or give A in {requested}")
    if not (is_half(dtype) and p.semiring.supports(np.float32)):
        return "the dtype is wide enough"
    if strips is not None:
        has_kernels = p.semiring.selective
    else:
        has_kernels = bool(facts.devices) or (facts.on_device and p.backend.capabilities.provides("close"))
    if has_kernels and stays_float16(dtype, options):
        return f"{'⊕ and ⊗ only select' if requested is None else 'compute_dtype'}: computed in {dtype}"
    if requested is not None:
        raise DTypeError(
            "compute_dtype is float16, and a CPU computes float16 in float32: leave it out, or compute on a GPU, "
            f"{option('device', 'cuda')}"
        )
    if strips is not None:
        remedy = "close the matrix in memory, or convert it to float32"
        if dtype == np.float16 and p.semiring.selective:
            remedy += ", or round whenever a strip is written, compute_dtype='float16'"
        raise AlgebraError(f"{strips.piece_name} of {dtype} cannot hold float32: {remedy}")
    A = facts.A.astype(np.float32, order="C")  # in the result's order of entries, not that of the operand
    return p.with_facts(facts.of(A, options, rounded_to=facts.rounded_to or dtype)).replace(rounded_result=dtype)


# --------------------------------------------------------------------------------------------------------------- signs


def change_of_sign(p: Problem) -> Problem | str:
    """Close max-plus as min-plus of the negatives, and clear the sign bits of zeros for kernels. The result is exact.

    If the call must not wait for the signs, another map makes the result NaN if a weight is below 0.
    """
    facts = p.facts
    if not facts.is_tropical:
        return p.replace(signs=facts.signs) if facts.storage != "bits" else p.replace(signs="below")
    maps: tuple[EntryMap, ...] = (NEGATION,) if facts.sign < 0 else ()
    signs = "below" if facts.signs == "below" else "clear"
    if p.dtype.kind != "f":
        changes = {"matrix": p.read(*maps)} if maps else {}
        return p.replace(semiring=min_plus, signs=signs, **changes)
    if not facts.may_synchronize:
        passes = p.replace(semiring=min_plus).backend.capabilities.passes
        maps = (*maps, POSITIVE_ZEROS if passes is None else guard_against_negative_weights(passes))  # type: ignore[arg-type]
    elif facts.sign > 0 and facts.signs == "zero":
        maps = (*maps, POSITIVE_ZEROS)
    inner = p.matrix.inner if facts.is_part else p.dtype.type(np.inf)
    if not maps and inner == p.matrix.inner:
        return p.replace(semiring=min_plus, signs=signs)
    return p.replace(semiring=min_plus, signs=signs, matrix=p.read(*maps, inner=inner))


# ------------------------------------------------------------------------------------------------------------ integers


def counts_of_paths(p: Problem) -> Problem | str:
    """Close integers of + and ×, whose star divides, with the star 1̄: a graph without cycles needs no other.

    The result is exact. Source: `semiring.sparse.path_counts`.
    """
    if not p.facts.counts_paths:
        return "not integers of + and × whose star does not exist"
    return p.replace(semiring=path_counts(p.semiring.name))


def narrow_integers(p: Problem) -> Problem | str:
    """Close whole numbers in the narrowest integers that provably hold every distance, if these are faster.

    The result is bitwise identical. Proof and source: `semiring.algorithms.narrow_integers`.
    """
    facts, dtype = p.facts, p.facts.dtype
    if p.semiring is not min_plus or p.is_stack or facts.is_part:
        return "not a single matrix of min-plus"
    faster = closure_speed(p.backend.name, dtype).faster_dtypes(p.n, dtype) if facts.uses_device else []
    if not faster or not facts.may_synchronize or p.integers is not None:
        return "narrower integers are not faster here"
    if not may_choose(p.options.method):
        return "a method was named"
    if p.signs == "below":
        return "a weight is below 0"
    greatest = facts.greatest_weight if dtype.kind == "i" else None
    if greatest == 0:
        return "no two edges add up"
    narrow = find_narrow_dtype(facts.A, facts.sign, greatest, faster)
    if narrow is None:
        return "an edge is not a whole number, or a distance may be too long"
    inner = narrow[0].type(inner_zero(min_plus, narrow[0]))
    return p.replace(matrix=p.read(dtype=narrow[0], inner=inner, sentinel="held"), signs="clear")


def integers(p: Problem) -> Problem | str:
    """Close integers of min-plus with half their range for "no path", in a wider dtype if weights or paths need it.

    No sum of two entries below this value (``inner``) overflows. Integers below 0 are read under potentials of the
    whole graph. These are whole numbers too, so nothing is rounded.

    Suppose that all weights are ≥ 0, and a path reached ``inner``. Before its last edge its length was in
    [inner - largest, inner), because no edge is longer than the largest weight. If no distance lies in this range, no
    path was cut off. Otherwise the matrix is closed again in the next wider dtype, which needs the input.

    Raises `NegativeCycleError`, and `IntegerOverflowError` if no dtype is wide enough, or sums of weights may leave the
    range of int64. The result is exact. Source and proof: `semiring.algorithms.potentials.sweeps`.
    """
    facts, own = p.facts, p.facts.dtype
    if p.semiring is not min_plus or p.dtype.kind != "i" or facts.is_part or p.matrix.sentinel:
        return "not integers of min-plus"
    if p.is_stack and not facts.sums_are_safe:
        return "each matrix of the stack is read by itself"
    dtype, largest, is_signed = p.integers or own, 0, p.signs == "below"
    if facts.may_synchronize:
        largest = _largest_weight(p)
        while largest >= _inner(dtype):
            dtype = wider_integers(p, dtype)
    matrix = p.read(
        *((_SHIFT,) if is_signed else ()),
        dtype=dtype,
        inner=dtype.type(_inner(dtype)),
        sentinel="held" if dtype == own and not is_signed else "masked",
    )
    may_be_cut_off = facts.may_synchronize and (p.n + 1) * largest >= _inner(dtype)
    return p.replace(matrix=matrix, signs="clear", largest=largest if may_be_cut_off else None)


@cache
def _inner(dtype: np.dtype[Any]) -> int:
    """Return the value for "no path" in the encoded integers."""
    return int(inner_zero(min_plus, dtype))


def _largest_weight(p: Problem) -> int:
    """Return the largest weight, or the largest weight under potentials if one is below 0."""
    facts = p.facts
    if p.signs != "below":
        return int(facts.greatest_weight or 0)
    potentials: Any = facts.potentials  # integers have no exact ones
    maps = (*p.matrix.maps, PotentialShift(potentials))
    inner = _WIDE.type(_inner(_WIDE))
    wide = EncodedMatrix(facts.dtype, facts.none, _WIDE, inner, maps, "masked", is_transposed=facts.is_transposed)
    return int(wide.number_range(facts.A)[1])


def is_near_no_path(largest: int, D: Any) -> bool:
    """Return whether a closed entry lies within the ``largest`` weight of "no path", so that a path may be cut off."""
    none = inner_zero(min_plus, D.dtype)
    bound = D.dtype.type(int(none) - largest)
    return bool(any_true(((D[rows] >= bound) & (D[rows] < none)).any() for rows in parts(D.shape, is_device_array(D))))


def wider_integers(p: Problem, dtype: np.dtype[Any], *, result: Any = None) -> np.dtype[Any]:
    """Return the next wider integers for the closure of a problem; ``result``: the result in the narrower ones.

    Raises `IntegerOverflowError` if there is no wider dtype, if strips cannot hold it, or if the result has overwritten
    the input.
    """
    facts, strips, after = p.facts, p.facts.strips, next_wider_integer(dtype)
    start = f"a weight or path is too long for the half of the range of {dtype} in which {p.options.semiring.name} "
    start += "computes"
    if after is None:
        raise IntegerOverflowError(f"{start}: use float64, which holds every sum, rounded")
    if strips is not None:
        raise IntegerOverflowError(
            f"{start}, and {strips.piece_name} have no room for wider ones: convert {strips.whole_name} to {after}"
        )
    if result is not None and dtype == facts.dtype and is_same_memory(facts.A, result):
        raise IntegerOverflowError(
            f"{start}, and the input is overwritten by the result: pass {after}, or do not compute in place"
        )
    return after


def integers_in_order(p: Problem) -> Problem | str:
    """Close floats as int32 in the same order, if ⊕ and ⊗ only select, a sign bit is set, and that is faster.

    The result is bitwise identical. See `semiring.algorithms.ordered_integers`.
    """
    if p.is_packed or p.facts.is_tropical or not has_integer_order(p.semiring, p.dtype):
        return "⊕ and ⊗ do not only select one of two floats"
    if p.facts.strips is not None:
        return "the matrix is closed by strips, which keep its dtype"
    capabilities = p.backend.capabilities
    if capabilities.passes is None:
        return "integers are not compared faster than floats here"
    plan, closures = p.kernel_plan, capabilities.closures
    if plan.facts.nonnegative:
        return "no sign bit is set: floats are compared as integers as they are"
    if p.is_stack and closures is not None and p.n <= closures.stack_rows(plan):
        return "two extra passes would cost more than they save"
    dtype = np.dtype(np.int32)
    matrix = p.read(OrderedIntegers(p.semiring), dtype=dtype, inner=p.semiring.zero_for(dtype))
    return p.replace(matrix=matrix, signs="below")


def packed_bits(p: Problem) -> Problem | str:
    """Close truth values as packed bits, 32 truth values to a word. The result is identical.

    Cost: two passes, n² / 8 bytes.
    """
    method, m = p.options.method, p.matrix
    if m.dtype != np.bool_ or p.is_packed or p.facts.is_part:
        return "not truth values of one byte each"
    if p.is_stack or not may_choose(method):
        return "a method was named, or the input is a stack"
    if is_structural(method) and "bits" not in method_named(method).storages:
        return "the named method reads one byte an entry"
    if method == "auto" and p.n < (least := closure_speed(p.backend.name, m.dtype).pack):
        return f"{p.n:,} vertices, fewer than {least:,}: packing is not faster"
    if not can_pack(p.semiring, p.facts.on_device):
        return "the backend has no packed bits for this semiring"
    return p.replace(matrix=p.read(storage="bits"), signs="below")


# ---------------------------------------------------------------------------------------------- potentials and factors


def potentials(p: Problem) -> Problem | str:
    """Make negative floats non-negative by potentials h, w[i, j] + h[i] - h[j] ≥ 0, and shift the distances back.

    `PotentialShift` does both: ``encode`` as the entries are read, and ``decode`` as the result is written, rounded
    once. All paths from i to j change by the same amount h[i] - h[j]. Each strong component needs potentials of its
    own, and weights of very different size need exact ones: see `semiring.algorithms.components`.

    Source, proof and hazards: `semiring.algorithms.potentials`, docs/rounding.md.
    """
    if p.semiring is not min_plus or p.signs != "below" or p.dtype.kind != "f" or p.is_stack:
        return "no floating-point weight is below 0"
    return p.replace(matrix=p.read(_SHIFT), signs="shifted")


def scaling(p: Problem) -> Problem | str:
    """Read products that gain under factors p, w[i, j] · p[i] / p[j], so that none gains, and scale the results back.

    Raises `DivergenceError` with the vertices of a cycle that gains. Source, rounding and hazards:
    `semiring.algorithms.potentials.scales`.
    """
    facts = p.facts
    if not has_factors(p.semiring) or p.dtype.kind != "f" or p.is_stack or not facts.weights_gain:
        return "no product gains"
    if facts.factors is None:
        return "products of paths leave the range of float64"
    return p.replace(matrix=p.read(_SCALING))


def _is_tropical_in(kinds: str) -> Callable[[Semiring, np.dtype[Any]], bool]:
    return lambda semiring, dtype: dtype.kind in kinds and is_tropical(semiring)


#: The encodings in the order in which they are tried. Each has a function that returns whether it may apply to entries
#: of a semiring and a dtype. An encoding reads the signs and the dtype that the encodings before it have made.
ENCODINGS: tuple[tuple[Callable[[Semiring, np.dtype[Any]], bool], Encoding], ...] = (
    (lambda semiring, dtype: True, change_of_sign),
    (counts_paths, counts_of_paths),
    (_is_tropical_in("fi"), narrow_integers),
    (_is_tropical_in("i"), integers),
    (has_integer_order, integers_in_order),
    (lambda semiring, dtype: dtype == np.bool_, packed_bits),
    (_is_tropical_in("f"), potentials),
    (lambda semiring, dtype: dtype.kind == "f" and has_factors(semiring), scaling),
)


@lru_cache(maxsize=1024)
def encodings_for(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[Encoding, ...]:
    """Return the encodings that may apply to entries of a semiring and a dtype, in their order."""
    return tuple(encoding for may_apply, encoding in ENCODINGS if may_apply(semiring, dtype))
