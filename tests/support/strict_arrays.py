"""Provide a stand-in for CuPy on the host that is stricter: an implicit copy to the host is an error.

`installed` puts it in CuPy's place: `semiring` then takes its arrays for arrays on a GPU and closes them with the
reference kernels. So tests without a GPU check what the algorithms do to arrays. No function of NumPy may receive such
an array, and no function of the stand-in an array of NumPy. Only `get` and scalars lead back to the host.
"""

from __future__ import annotations

import operator
import sys
import types
from contextlib import contextmanager, nullcontext

import numpy as np
import passes_on_host

from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.entries import check_entries
from semiring.kernels.contract import Capabilities, PassKernels, StreamKernels
from semiring.kernels.reference import ReferenceBackend

_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"]
_COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
_REDUCTIONS = ["all", "any", "argmax", "argmin", "max", "min", "sum", "mean"]
_FUNCTIONS = [
    "abs",
    "add",
    "arange",
    "argsort",
    "array",
    "asarray",
    "ascontiguousarray",
    "broadcast_to",
    "concatenate",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expm1",
    "floor",
    "fmax",
    "fmin",
    "full",
    "isfinite",
    "isnan",
    "isposinf",
    "isneginf",
    "left_shift",
    "log",
    "log1p",
    "maximum",
    "may_share_memory",
    "minimum",
    "multiply",
    "negative",
    "nonzero",
    "flatnonzero",
    "packbits",
    "rint",
    "sqrt",
    "stack",
    "subtract",
    "unpackbits",
    "where",
    "zeros",
    "ones",
    "count_nonzero",
    "column_stack",
    "cumsum",
    "searchsorted",
    "take",
]


def _inner(value):
    """Return ``value`` with the NumPy array in place of each `StrictArray`, and raise `TypeError` for a bare NumPy
    array."""
    if isinstance(value, StrictArray):
        return value.inner
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>: it is in the memory of the host")
    if isinstance(value, tuple | list):
        return type(value)(_inner(x) for x in value)
    return value


def _outer(value):
    if isinstance(value, tuple):
        return tuple(map(_outer, value))
    return StrictArray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


class StrictArray:
    """An array that pretends to live on a GPU."""

    __array_ufunc__ = None
    __hash__ = None
    __module__ = "cupy"

    def __init__(self, inner):
        self.inner = inner

    def __array__(self, *arguments, **options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_function__(self, function, *rest):
        raise TypeError(f"numpy.{function.__name__} met an array on a GPU")

    def __dlpack__(self, **options):
        raise TypeError("an array on a GPU is not read by the host")

    def __dlpack_device__(self):
        return 2, 0

    def get(self):
        return self.inner.copy()

    def __getattr__(self, name):
        if name in ("shape", "dtype", "ndim", "size", "nbytes", "strides", "itemsize", "flags"):
            return getattr(self.inner, name)
        if name in ("reshape", "copy", "astype", "view", "diagonal", "ravel", "fill", "item", "tolist", "transpose"):
            method = getattr(self.inner, name)
            return lambda *a, **o: (
                _outer(method(*map(_inner, a), **o)) if name not in ("item", "tolist") else method(*a)
            )
        raise AttributeError(f"'ndarray' object has no attribute {name!r}")

    @property
    def T(self):
        return StrictArray(self.inner.T)

    @property
    def device(self):
        return types.SimpleNamespace(id=0)

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.inner.ctypes.data, device_id=0)

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return _outer(np.asarray(self.inner[_inner(index)]))

    def __setitem__(self, index, value):
        self.inner[_inner(index)] = _inner(value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self.inner)

    def __int__(self):
        return int(self.inner)

    def __float__(self):
        return float(self.inner)

    def __index__(self):
        return operator.index(self.inner.item())

    def __neg__(self):
        return _outer(-self.inner)

    def __abs__(self):
        return _outer(abs(self.inner))

    def __invert__(self):
        return _outer(~self.inner)


def _reduction(name):
    def method(self, axis=None, **options):
        if set(options) - {"keepdims", "dtype", "out"}:
            raise TypeError(f"{name}() got an unexpected keyword argument: CuPy has no {sorted(options)}")
        return _outer(getattr(self.inner, name)(axis=axis, **options))

    return method


def _operator(name):
    function = getattr(operator, name + "_" if name in ("and", "or") else name)

    def forward(self, other):
        if isinstance(other, np.ndarray) and other.ndim:
            raise TypeError("an array on a GPU meets one in the memory of the host")
        return _outer(function(self.inner, _inner(other)))

    def backward(self, other):
        return _outer(function(_inner(other), self.inner))

    def in_place(self, other):
        np.copyto(self.inner, function(self.inner, _inner(other)), casting="same_kind")
        return self

    return forward, backward, in_place


for _name in _REDUCTIONS:
    setattr(StrictArray, _name, _reduction(_name))
for _name in _BINARY:
    for _prefix, _method in zip(("", "r", "i"), _operator(_name), strict=True):
        setattr(StrictArray, f"__{_prefix}{_name}__", _method)
for _name in _COMPARISONS:
    setattr(StrictArray, f"__{_name}__", _operator(_name)[0])


def _function(name):
    function = getattr(np, name)

    def call(*arguments, **options):
        if set(options) & {"where", "initial"}:
            raise TypeError(f"{name}(): CuPy has no where= and initial=")
        if name in ("array", "asarray", "ascontiguousarray") and isinstance(arguments[0], np.ndarray):
            return _outer(np.array(arguments[0], *arguments[1:]))  # an explicit copy is allowed
        options = {key: _inner(value) for key, value in options.items()}
        return _outer(function(*map(_inner, arguments), **options))

    return call


class StrictStreams(StreamKernels):
    """`semiring.kernels.contract.StreamKernels` whose kernels have ended when they return."""

    done = True

    def lanes(self, plan):
        return None

    def mark(self):
        return self

    def synchronize(self):
        pass


class StrictBackend:
    """The reference kernels on such arrays, under the name of the CUDA backend."""

    name = "cuda"
    stacks = False
    capabilities = Capabilities(streams=StrictStreams())

    def __init__(self):
        self._reference = ReferenceBackend()
        self.supports = self._reference.supports

    def __getattr__(self, name):
        method = getattr(self._reference, name)

        def call(plan, *arguments):
            assert all(not isinstance(x, np.ndarray) for x in arguments)
            before = plan.status.diverged
            with np.errstate(all="ignore"):
                method(plan, *map(_inner, arguments))
            if (
                name.startswith("close_block") and plan.status.diverged != before
            ):  # a device leaves the word in its own memory
                pivot, plan.status.diverged = plan.status.diverged, before
                if plan.status.word is not None and int(plan.status.word[0]) < 0:
                    plan.status.word[0] = plan.status.first_vertex + pivot

        return call


class StrictPasses(PassKernels):
    """`semiring.kernels.contract.PassKernels` on such arrays."""

    @staticmethod
    def copy(A, out):
        out[...] = A

    @staticmethod
    def copy_nonnegative(A, out):
        negative = (A.inner < 0).any()
        out[...] = A + 0.0
        return StrictArray(np.asarray([negative]))

    @staticmethod
    def spoil(A, word):
        if word.inner[0]:
            A[...] = np.nan

    @staticmethod
    def in_order(bits, out, replaced, back):
        flipped = lambda x: x ^ ((x >> 31) & np.int32(0x7FFFFFFF))  # noqa: E731
        values = bits.inner if back else flipped(bits.inner)
        for before, after in replaced:
            values = np.where(values == before, after, values)
        out.inner[...] = flipped(values) if back else values

    @staticmethod
    def largest_whole(A):
        finite = A.inner[np.isfinite(A.inner)]
        return float(np.abs(finite).max(initial=0)) if (finite == np.rint(finite)).all() else np.inf

    @staticmethod
    def relax(A, h, sign, epsilon):
        W = np.where(np.isinf(A.inner), np.inf, A.inner.astype(np.float64) * sign)
        return StrictArray((W * np.where(W < 0, 1 - epsilon, 1 + epsilon) + h.inner[:, np.newaxis]).min(axis=0))


def _module():
    module = types.ModuleType("cupy")
    module.ndarray = StrictArray
    for name in _FUNCTIONS:
        setattr(module, name, _function(name))
    module.cuda = types.SimpleNamespace(
        Device=lambda number=None: nullcontext(),
        runtime=types.SimpleNamespace(getDeviceCount=lambda: 1, getDevice=lambda: 0),
    )
    return module


def on_device(array):
    """Return a NumPy array as a `StrictArray`. A view keeps its strides."""
    return StrictArray(array)


@contextmanager
def install_stand_in(monkeypatch):
    """Put the stand-in in CuPy's place, with the reference kernels behind it."""
    from semiring import kernels
    from semiring.arrays import device
    from semiring.kernels.cuda.entries import entry_passes as device_kernels
    from semiring.kernels.cuda.entries import entry_scan
    from semiring.kernels.cuda.entries import packing as bits

    with monkeypatch.context() as patch:
        module = _module()
        patch.setitem(sys.modules, "cupy", module)
        patch.setattr(device, "_probe_cupy", lambda: module)
        backend = StrictBackend()
        real = kernels._backend
        patch.setattr(kernels, "_backend", lambda *a: backend if a[-1] else real(*a))
        patch.setattr(entry_scan, "scan_array", lambda A, semiring, name="A": check_entries(A.inner, semiring, name))
        patch.setattr(device_kernels, "select", _select)
        passes_on_host.install(patch, _inner)
        patch.setattr(bits, "pack", lambda truths: StrictArray(pack(truths.inner).words))
        patch.setattr(bits, "unpack", _unpack)
        yield


def _select(target, absent, numbers, extreme):
    target.inner[...] = np.where(absent.inner, target.dtype.type(extreme), numbers.inner)


def _unpack(words, columns, out=None):
    truths = BitMatrix(np.ascontiguousarray(words.inner), (words.shape[0], columns)).unpack()
    if out is None:
        return StrictArray(truths)
    out.inner[...] = truths
    return out
