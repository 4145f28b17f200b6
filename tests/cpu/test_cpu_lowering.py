"""Test expressions as vector code: every operation against NumPy on corner values, functions against mpmath."""

from __future__ import annotations

import ctypes

import llvmlite.ir as ir
import mpmath
import numpy as np
import pytest
from tiers import quick

import semiring as sr
from semiring.algebra.expressions import parse
from semiring.kernels.cpu.codegen.lowering import Operand, lower, sums_to_fuse
from semiring.kernels.cpu.codegen.native import compile_native
from semiring.kernels.cpu.codegen.scalars import plus, times
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.codegen.vector import I64, ElementType, Vectors, make_opaque
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.engine import make_plan

DTYPES = ["float32", "float64", "int16", "int32", "int64", "uint8", "bool"]


def build(module, name, dtype, fuse, text):
    """Add a function to an LLVM module: the vector code of an expression on arrays."""
    element, lanes = ElementType(dtype), host().vector_bytes // dtype.itemsize
    expression = parse(text, ("x", "y"))
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 4), name)
    builder = ir.IRBuilder(function.append_basic_block())
    v = Vectors(builder, element, lanes)
    pointers = [builder.inttoptr(argument, v.type.as_pointer()) for argument in function.args]
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(I64)
    at = [builder.gep(pointer, [index]) for pointer in pointers[:3]]
    loaded = [builder.load(address) for address in at[:2]]
    variables = {name: Operand(value, element.is_floating) for name, value in zip("xy", loaded, strict=True)}
    options = {"fuse": sums_to_fuse(parse("x + y", ("x", "y")), expression)} if fuse else {}
    one = make_opaque(builder, v.constant(1), host()) if fuse else None
    result = lower(v, host(), expression, variables, one=one, **options).value
    builder.store(result, at[2])
    following = builder.add(index, ir.Constant(I64, 1))
    index.add_incoming(ir.Constant(I64, 0), before)
    index.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, function.args[3]), loop, after)
    builder.position_at_end(after)
    builder.ret_void()


def evaluate(text, dtype, x, y=None, *, fuse=False):
    """Run the vector code of an expression on arrays."""
    dtype = np.dtype(dtype)
    lanes = host().vector_bytes // dtype.itemsize
    address = compile_native(build, dtype, fuse, text)
    x = np.asarray(x, dtype)
    y = np.zeros_like(x) if y is None else np.asarray(y, dtype)
    blocks = -(-x.size // lanes)
    room = np.zeros(3 * blocks * 64 + 64, np.uint8)
    start = -room.ctypes.data % 64
    views = [room[start + i * blocks * 64 :][: blocks * host().vector_bytes].view(dtype) for i in range(3)]
    views[0][: x.size], views[1][: x.size] = x, y
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(address)(*(view.ctypes.data for view in views), blocks)
    return views[2][: x.size].copy()


def corners(dtype):
    """Return pairs of every corner value with every other."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        special = [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            -2.5,
            3,
            1e-3,
            info.max,
            info.min,
            info.tiny,
            info.smallest_subnormal,
            info.eps,
        ]
        values = np.array([*special, np.inf, -np.inf, np.nan], dtype)
    elif dtype.kind == "b":
        values = np.array([False, True])
    else:
        info = np.iinfo(dtype)
        values = np.unique(np.array([info.min, info.min + 1, 0, 1, 2, 7, 100, info.max - 1, info.max], dtype))
        if dtype.kind == "i":
            values = np.append(values, np.array([-1, -7], dtype))
    return np.repeat(values, values.size), np.tile(values, values.size)


ANY = {
    "min(x, y)": np.fmin,
    "max(x, y)": np.fmax,
    "max(min(x, y), x)": lambda x, y: np.fmax(np.fmin(x, y), x),
    "where(x < y, x, y)": lambda x, y: np.where(x < y, x, y),
    "where(x <= y, x, y)": lambda x, y: np.where(x <= y, x, y),
    "where(x > y, x, y)": lambda x, y: np.where(x > y, x, y),
    "where(x >= y, x, y)": lambda x, y: np.where(x >= y, x, y),
    "where(x == y, x, y)": lambda x, y: np.where(x == y, x, y),
    "where(x != y, x, y)": lambda x, y: np.where(x != y, x, y),
    "where((x < y) & (x != 1), x, y)": lambda x, y: np.where((x < y) & (x != 1), x, y),
    "where((x < y) | (x == 1), x, y)": lambda x, y: np.where((x < y) | (x == 1), x, y),
    "where((x < y) ^ (x == 1), x, y)": lambda x, y: np.where((x < y) ^ (x == 1), x, y),
    "where(~(x < y), x, y)": lambda x, y: np.where(~(x < y), x, y),
}
ARITHMETIC = {
    "x + y": np.add,
    "x - y": np.subtract,
    "x * y": np.multiply,
    "-x": lambda x, y: -x,
    "abs(x)": lambda x, y: np.abs(x),
    "max(0, x + y - 1)": lambda x, y: np.fmax(x.dtype.type(0), x + y - x.dtype.type(1)),
    "min(x + y, x - y)": lambda x, y: np.fmin(x + y, x - y),
}
FLOAT = {
    "x / y": np.divide,
    "sqrt(x)": lambda x, y: np.sqrt(x),
    "floor(x)": lambda x, y: np.floor(x),
    "min(x - y, sqrt(x))": lambda x, y: np.fmin(x - y, np.sqrt(x)),
}
BITS = {
    "x & y": np.bitwise_and,
    "x | y": np.bitwise_or,
    "x ^ y": np.bitwise_xor,
    "~x": lambda x, y: ~x,
    "x | ~y": lambda x, y: x | ~y,
}


def operations(dtype):
    kind = np.dtype(dtype).kind
    return {
        **ANY,
        **(ARITHMETIC if kind != "b" else {}),
        **(FLOAT if kind == "f" else {}),
        **(BITS if kind != "f" else {}),
    }


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype in ("float32", "int32", "bool"), DTYPES))
def test_every_operation_on_corner_values(dtype):
    x, y = corners(dtype)
    with np.errstate(all="ignore"):
        for text, reference in operations(dtype).items():
            expected = reference(x, y).astype(dtype)
            np.testing.assert_array_equal(evaluate(text, dtype, x, y), expected, err_msg=text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_as_multiply_adds_are_the_same_bits(dtype, rng):
    x, y = corners(dtype)
    x, y = np.append(x, rng.standard_normal(1000).astype(dtype)), np.append(y, rng.standard_normal(1000).astype(dtype))
    with np.errstate(all="ignore"):
        for text, reference in (("x + y", x + y), ("x - y", x - y), ("x + y - 1", x + y - x.dtype.type(1))):
            found = evaluate(text, dtype, x, y, fuse=True)
            np.testing.assert_array_equal(found, reference)
            np.testing.assert_array_equal(np.signbit(found[reference == 0]), np.signbit(reference[reference == 0]))


FUNCTIONS = {"exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": mpmath.log1p}


def sample(name, dtype, rng):
    info = np.finfo(dtype)
    tiny = np.exp(rng.uniform(np.log(float(info.tiny)), 0, 150))
    if name in ("exp", "expm1"):
        top = float(np.log(info.max))
        return np.concatenate([rng.uniform(-top, top, 300), rng.uniform(-2, 2, 300), tiny, -tiny]).astype(dtype)
    if name == "log":
        wide = np.exp(rng.uniform(np.log(float(info.tiny)), np.log(float(info.max)), 300))
        subnormal = float(info.tiny) * rng.random(20)
        return np.concatenate(
            [wide, rng.uniform(0.4, 2.2, 400), 1 + 1e-3 * rng.standard_normal(100), subnormal]
        ).astype(dtype)
    wide = np.exp(rng.uniform(0, np.log(float(info.max)), 200))
    return np.concatenate([wide, rng.uniform(-0.9999, 3, 500), tiny, -tiny]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_elementary_functions_to_the_last_place(name, dtype, rng):
    x = sample(name, dtype, rng)
    found = evaluate(f"{name}(x)", dtype, x)
    with mpmath.workprec(160):
        exact = [FUNCTIONS[name](mpmath.mpf(float(value))) for value in x]
        ulps = [
            abs(
                float(
                    (mpmath.mpf(float(f)) - e) / mpmath.mpf(float(np.spacing(np.abs(np.dtype(dtype).type(float(e))))))
                )
            )
            for f, e in zip(found, exact, strict=True)
            if np.isfinite(np.dtype(dtype).type(float(e)))
        ]
    assert max(ulps) < 1.6, x[int(np.argmax(ulps))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementary_functions_at_their_ends(dtype):
    inf, nan = np.inf, np.nan
    cases = {
        "exp": ([-inf, inf, 0.0, -1e4, 1e4, nan], [0, inf, 1, 0, inf, nan]),
        "expm1": ([-inf, inf, 0.0, -1e4, 1e4, nan], [-1, inf, 0, -1, inf, nan]),
        "log": ([0.0, inf, 1.0, -1.0, -inf, nan, -0.0], [-inf, inf, 0, nan, nan, nan, -inf]),
        "log1p": ([-1.0, inf, 0.0, -2.0, -inf, nan], [-inf, inf, 0, nan, nan, nan]),
    }
    for name, (x, expected) in cases.items():
        np.testing.assert_array_equal(evaluate(f"{name}(x)", dtype, x), np.array(expected, dtype), err_msg=name)
    for name in ("expm1", "log1p"):
        assert np.signbit(evaluate(f"{name}(x)", dtype, [-0.0]))[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_plus_is_stable(dtype):
    """The function log(eˣ + eʸ) is right if eˣ itself overflows or vanishes, or if both are 0."""
    text = sr.log_plus.add.expression.text
    x = np.array([1000, -1000, -np.inf, -np.inf, 5, 0, -50], dtype)
    y = np.array([1000, -1000, -np.inf, 3, -np.inf, -1e-3, -50.5], dtype)
    with mpmath.workprec(200):
        exact = [
            float(mpmath.log(mpmath.exp(float(a)) + mpmath.exp(float(b)))) if max(a, b) > -np.inf else -np.inf
            for a, b in zip(x, y, strict=True)
        ]
    np.testing.assert_allclose(evaluate(text, dtype, x, y), exact, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.full
@pytest.mark.parametrize("name", ["min_plus", "max_min", "boolean", "xor_and", "plus_times", "lukasiewicz"])
def test_single_elements_in_numba_functions(name):
    import numba

    semiring = sr.CATALOGUE[name]

    @numba.njit
    def both(algebra, x, y):
        return plus(algebra, x, y), times(algebra, x, y)

    for dtype in semiring.dtypes:
        plan = make_plan(semiring, dtype)
        kind = np.dtype(dtype).type
        for x in (0, 1):
            for y in (0, 1):
                found = both(ScalarSemiring(plan), kind(x), kind(y))
                assert found == (semiring.add(kind(x), kind(y)), semiring.mul(kind(x), kind(y)))


def test_a_single_nan_is_dropped():
    import numba

    @numba.njit
    def add(algebra, x, y):
        return plus(algebra, x, y)

    algebra = ScalarSemiring(make_plan(sr.min_plus, "float64"))
    assert add(algebra, np.nan, 1.0) == add(algebra, 1.0, np.nan) == 1.0


def test_sums_are_balanced_between_pipes():
    def fused_sums(add, mul):
        return {node.text for node in sums_to_fuse(parse(add, ("x", "y")), parse(mul, ("x", "y")))}

    assert fused_sums("min(x, y)", "x + y") == {"x + y"}
    assert fused_sums("x + y", "x * y") == set()
    assert fused_sums("max(x, y)", "max(0, x + y - 1)") == {"x + y", "x + y - 1"}
    assert fused_sums("min(x, y)", "x + y - x * y") == {"x + y"}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_zero_absorbs_wherever_an_operation_has_a_step(dtype):
    """The zero absorbs: 0̄ ⊗ x = 0̄ for every x, also between constants of a ⊗ that says otherwise there."""
    band = sr.Semiring("band", "max(x, y)", "where(x > 42, where(x < 45, 50, min(x, y)), min(x, y))", -np.inf, np.inf)
    zero = band.zero_for(dtype)
    A, B = np.array([[43, 1]]).astype(dtype), np.array([[0], [2]]).astype(dtype)
    B[0] = zero
    assert band.mul(A[0, 0], zero) == zero
    assert sr.matmul(A, B, band) == 1
