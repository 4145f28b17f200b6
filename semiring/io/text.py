"""Provide the functions of all text formats: numbers as text, the entries that a file lists, and their places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from semiring.advice import option
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.errors import FormatError

__all__ = [
    "ProgressMatrix",
    "as_array",
    "count_listed",
    "edge_chunks",
    "is_count",
    "is_exact",
    "is_number",
    "line_locator",
    "listed_entries",
    "numbers_as_text",
    "parse_number",
]


def is_count(text: str) -> bool:
    """Return whether the text is a count: at most 19 decimal digits, which 64 bits hold."""
    return text.isdecimal() and len(text) < 20


def parse_number(text: str, decimal: str = ".") -> int | float:
    """Return the integer of at most 64 bits, or the float, that a text in a file stands for.

    ``decimal`` separates the digits of a fraction. Raises `ValueError` with the reason for any other text. Python's
    digit separators are not allowed, and a number beyond float64 is an error, never ∞.
    """
    if decimal != ".":
        text = "" if "." in text else text.replace(decimal, ".")
    try:
        if "_" in text:
            raise ValueError
        whole = int(text)
        if -(2**63) <= whole < 2**63 and not (whole == 0 and "-" in text):  # -0 is a float
            return whole
    except ValueError:
        pass
    try:
        value = float("" if "_" in text else text)
    except ValueError:
        raise ValueError("not a number") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError("beyond the range of float64")
    return value


def is_exact(number: Any, integer: Any) -> bool:
    """Return whether the float ``number`` is finite and its integer part equals ``integer``."""
    return bool(np.isfinite(number)) and int(number) == int(integer)


def as_array(numbers: Sequence[int | float], locate: Callable[[int], str]) -> np.ndarray[Any, Any]:
    """Return the numbers of a file as an array of integers, or of floats if some numbers are floats.

    Raises `FormatError` for an integer among floats that float64 does not represent.
    """
    array = np.array(numbers) if len(numbers) else np.zeros(0)
    if array.dtype.kind == "f":
        for place in np.flatnonzero(np.abs(array) >= 2**53).tolist():
            whole = numbers[place]
            if isinstance(whole, int | np.integer) and not is_exact(array[place], whole):
                raise FormatError(
                    f"{locate(place)}: the weight {whole} is not exact in float64, which other weights need: "
                    f"write integers only, and pass {option('dtype', 'int64')}"
                )
    return array


def is_number(text: str, decimal: str = ".") -> bool:
    """Return whether `parse_number` accepts a text."""
    try:
        parse_number(text, decimal)
    except ValueError:
        return False
    return True


def numbers_as_text(values: np.ndarray[Any, Any]) -> list[str]:
    """Return a text for each value that reads back as the bitwise identical value of its dtype; 3.0 becomes 3.

    It is the shortest such text, with an exception for dtypes narrower than float64. Readers round to float64 first. If
    the second rounding leads to a neighbour (float32: 7.038531e-26), the text has all digits of the float64.
    """
    if values.dtype.kind == "b":
        return ["1" if value else "0" for value in values]
    if values.dtype.kind in "iu":
        return [str(value) for value in values.tolist()]
    if values.dtype == np.float64:
        texts = [str(value) for value in values.tolist()]
    else:
        texts = [str(value) for value in values]
        back = np.array([float(text) for text in texts]).astype(values.dtype)
        for index in np.flatnonzero(back != values):
            texts[index] = str(float(values[index]))
    return [text.removesuffix(".0") for text in texts]


def line_locator(source: str, lines: Sequence[int]) -> Callable[[int], str]:
    """Return a function that returns the place of entry ``index`` of a file, such as ``file.csv:17``."""

    def locate(index: int) -> str:
        return source if index < 0 else f"{source}:{lines[index % len(lines)]}"

    return locate


class ProgressMatrix:
    """A matrix that reports how many rows were read, of all rows that ``passes`` passes over the matrix read."""

    def __init__(self, matrix: Any, progress: Callable[[int, int], None], passes: int) -> None:
        self._matrix, self._progress = matrix, progress
        self._row_count, self._total = 0, passes * len(matrix)

    def __len__(self) -> int:
        return len(self._matrix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matrix, name)

    def __getitem__(self, rows: slice) -> Any:
        self._progress(self._row_count, self._total)
        self._row_count += len(range(*rows.indices(len(self))))
        return self._matrix[rows]


def listed_entries(
    matrix: Any, zero: Any
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield the rows, columns and values of all entries that a file lists, row by row, in parts of bounded size.

    These are the entries that differ from ``zero``. If zero is 0.0, -0.0 is such an entry, because its bits differ.
    """
    if is_sparse(matrix):
        all_rows, all_columns, all_values = stored_entries(matrix)
        for start in range(0, len(all_rows), 2**16):
            part = slice(start, start + 2**16)
            rows, columns, values = all_rows[part], all_columns[part], all_values[part]
            other = values != zero
            yield rows[other], columns[other], values[other]
        return
    packed = hasattr(matrix, "words")  # a `ProgressMatrix` forwards the attribute
    height = max(1, (2**21 if packed else 2**16) // max(1, len(matrix)))
    for start in range(0, len(matrix), height):
        block: Any = matrix[start : start + height]
        if packed and not zero:
            ((rows, columns),) = block.edges(block.size)
            yield rows + start, columns, np.ones(rows.size, np.bool_)
            continue
        block = block.unpack() if packed else block
        other = np.asarray(block != zero)
        if zero == 0 and block.dtype.kind not in "biu":
            other |= np.signbit(block) != np.signbit(zero)
        rows, columns = np.nonzero(other)
        yield rows + start, columns, block[rows, columns]


def count_listed(matrix: Any, zero: Any) -> int:
    """Return how many entries a file lists."""
    return sum(rows.size for rows, _, _ in listed_entries(matrix, zero))


def edge_chunks(matrix: Any, zero: Any) -> Iterator[tuple[list[int], list[int], np.ndarray[Any, Any]]]:
    """Yield the parts of `listed_entries`, with rows and columns as lists."""
    for rows, columns, values in listed_entries(matrix, zero):
        yield rows.tolist(), columns.tolist(), values
