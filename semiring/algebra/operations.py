"""Operations ⊕, ⊗ and star of a semiring, as functions of scalars and arrays."""

from __future__ import annotations

from importlib import import_module
from math import isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import scalar_like
from semiring.errors import DTypeError, IntegerOverflowError, MissingExtraError, ShapeError
from semiring.namespaces import array_namespace

if TYPE_CHECKING:
    from semiring.algebra import Semiring

__all__ = ["Operation", "numpy_dtype"]


class Operation:
    """The operation ⊕, ⊗ or star of a semiring: its tree, and its action on scalars and arrays entry by entry.

    Arrays of NumPy, CuPy, PyTorch and JAX stay in their library. Lists and scalars become NumPy arrays.

    Parameters
    ----------
    expression : Expression
        The tree of the operation.
    semiring : Semiring
        The semiring, which decides the dtypes and the zero.
    variables : tuple of str
        The names of the operands in the tree: ``x`` and ``y``, or ``x`` alone for a star.
    annihilates : bool
        Whether the result is the zero of the semiring if an operand is the zero, as for ⊗ where the semiring
        annihilates.
    """

    def __init__(
        self,
        expression: Expression,
        semiring: Semiring,
        variables: tuple[str, ...] = ("x", "y"),
        *,
        annihilates: bool = False,
    ) -> None:
        self.expression = expression
        self._semiring, self._variables, self._annihilates = semiring, variables, annihilates

    def __call__(self, *operands: Any) -> Any:
        """Return the result entry by entry, on operands that broadcast.

        Parameters
        ----------
        *operands : scalar, list or array
            Operands of one library, as many as the operation has variables.

        Returns
        -------
        array or scalar
            The result in the common dtype and the broadcast shape.

        Raises
        ------
        DTypeError
            The semiring is not defined on the common dtype, or an operand is not representable in it.
        ShapeError
            The shapes do not broadcast.
        IntegerOverflowError
            A sum of min-plus or max-plus does not fit its integers.
        """
        names = self._variables
        if len(operands) != len(names):
            raise TypeError(f"{self.expression} takes {' and '.join(names)}, {len(operands)} operands were given")
        xp = array_namespace(*operands)
        if xp is np:
            dtype = self._semiring.common_dtype(*operands)
            self._semiring.check_dtype(dtype)
            arrays = [_convert_operand(operand, dtype, self._semiring) for operand in operands]
            try:
                np.broadcast_shapes(*(array.shape for array in arrays))
            except ValueError:
                shapes = " and ".join(str(array.shape) for array in arrays)
                raise ShapeError(f"the operands are {shapes}: their shapes do not broadcast") from None
        else:
            arrays = list(operands)
            dtype = numpy_dtype(arrays[0].dtype)
            self._semiring.check_dtype(dtype)
        result = self.apply_to_arrays(*arrays)
        return result[()] if xp is np else result

    def apply_to_arrays(self, *arrays: Any, check: bool = True) -> Any:
        """Return the result on arrays of one library and one dtype on which the semiring is defined.

        Parameters
        ----------
        *arrays : array
            Arrays whose shapes broadcast, as many as the operation has variables.
        check : bool
            Whether a sum of min-plus or max-plus that does not fit its integers raises an error. The check makes the
            host wait for a GPU.

        Returns
        -------
        array
            The result, in the dtype of the arrays and the broadcast shape.

        Raises
        ------
        IntegerOverflowError
            If a sum of integers does not fit, with ``check``.
        """
        dtype, xp = numpy_dtype(arrays[0].dtype), array_namespace(*arrays)
        result = self.expression.evaluate(dict(zip(self._variables, arrays, strict=True)), dtype, xp)
        if self._annihilates and self._semiring.annihilates:
            zero = scalar_like(arrays[0], self._semiring.zero_for(dtype))
            has_zero_operand = (arrays[0] == zero) | (arrays[1] == zero)
            if self._semiring.tropical and dtype.kind == "i" and check:
                _check_sum(arrays[0], arrays[1], result, has_zero_operand, zero, dtype)
            may_overwrite = xp is np and self.expression.args and type(result) is np.ndarray
            if may_overwrite and result.shape == has_zero_operand.shape and result.dtype == dtype:
                np.copyto(result, zero, where=has_zero_operand)
            else:
                result = xp.where(has_zero_operand, zero, result)
        return result

    def __str__(self) -> str:
        return str(self.expression)

    def __repr__(self) -> str:
        return f"Operation({self.expression.text!r})"


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype that equals the dtype of an array of any library, with bfloat16 from ml_dtypes."""
    if isinstance(dtype, np.dtype):
        return dtype
    name: Any = str(dtype).removeprefix("torch.")
    try:
        result: np.dtype[Any] = np.dtype(import_module("ml_dtypes").bfloat16 if name == "bfloat16" else name)
    except ImportError as error:
        raise MissingExtraError("ml_dtypes", "torch", "bfloat16") from error
    return result


def _convert_operand(operand: Any, dtype: np.dtype[Any], semiring: Semiring) -> Any:
    """Return an operand as an array of the common dtype, or raise `DTypeError` if the dtype does not hold it."""
    if hasattr(operand, "dtype"):
        array = np.asarray(operand)
        if array.dtype == dtype:
            return array
        result = array.astype(dtype)
        if array.dtype.kind in "iub" and semiring.supports(array.dtype):
            # An extreme value that stands for ±∞ becomes the extreme value of the wider dtype.
            for element, typed in ((semiring.zero, semiring.zero_for), (semiring.one, semiring.one_for)):
                if isinstance(element.leaf, float) and isinf(element.leaf):
                    result = np.where(array == typed(array.dtype), typed(dtype), result)
        return result
    try:
        return np.asarray(operand, dtype)
    except OverflowError:
        raise DTypeError(f"{str(operand)[:80]} does not fit {dtype}: give both operands a wider dtype") from None


def _check_sum(x: Any, y: Any, total: Any, has_zero_operand: Any, zero: Any, dtype: np.dtype[Any]) -> None:
    """Raise `IntegerOverflowError` if a sum of two integers wraps, or equals the value that means "no path".

    ``has_zero_operand`` is true where x or y is the zero of the semiring. Such a sum is not checked.
    """
    wrapped = ((x ^ total) & (y ^ total)) < 0
    if bool(((wrapped | (total == zero)) & ~has_zero_operand).any()):
        raise IntegerOverflowError(f"a sum does not fit {dtype}: use a wider dtype (float64 holds every sum, rounded)")
