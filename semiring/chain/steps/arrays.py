"""What was given, as an array of one dtype where it is to be computed; and the result in the caller's library.

Lists and arrays of other libraries are read without a copy where that can be. With ``device`` an array of the host is
moved to the GPU, and closed there in place: what was moved is ours. (Integers are not, for they may have to begin again
in a wider dtype.)
"""

from __future__ import annotations

from functools import partial

from semiring.algorithms.stars import check_star
from semiring.arrays.operands import as_output, as_result, operands, same_memory, store
from semiring.arrays.other_zeros import warn_of_other_zeros, warn_of_other_zeros_on_device
from semiring.arrays.scans import Scan
from semiring.chain.matrix import Matrix
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.errors import ShapeError
from semiring.graphs.structure import UNSEEN
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["arrays"]


@step
def arrays(p: Problem) -> Look:
    """A matrix (..., n, n), and the memory that its closure goes to.

    Raises `ShapeError`, `DTypeError`, `DeviceError`, and `AlgebraError` for a semiring without a star.
    """
    yield p.taken, "a matrix already"
    request, A, out = p.request, p.given, p.request.out
    (array,) = operands(p.semiring, device=request.device, check=request.check, A=A)
    on_device = is_device_array(array)
    moved = on_device and not is_device_array(A)
    home, back = array if moved and array.dtype.kind != "i" else p.home, None
    if out is None:
        back = as_result(A)
    elif on_device and request.device is not None and not is_device_array(out):
        back = partial(store, as_output(out, array.shape, array.dtype))
    else:
        home = out
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"A is {array.shape}: a closure needs square matrices, shape (n, n) or (..., n, n)")
    check_star(p.semiring, array.dtype)
    if request.check and not on_device:
        warn_of_other_zeros(array, p.semiring)
    xp = array_namespace(array)
    if home is None:
        home = xp.empty(array.shape, array.dtype)
    else:
        home = as_output(home, array.shape, array.dtype, like=array)
        if same_memory(home, array):
            array = home
        elif xp.may_share_memory(home, array):
            array = array.copy()
    m = Matrix.of(array, p.semiring, rounded_to=request.rounded_to)
    alone = p.seen is UNSEEN and m.rounded_to is None
    q = p.but(matrix=m, home=home, waits=request.check or not on_device, alone=alone)
    if request.check and on_device and array.size:
        warn_of_other_zeros_on_device(array, p.semiring, Scan(q.known.least, q.known.greatest))
    return Reduction("moved to the GPU" if moved else "an array", None, [q], back, quiet=True)
