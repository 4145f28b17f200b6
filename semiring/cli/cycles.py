"""Restate messages about the matrix of the command with the name of its file, and the names of the vertices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from semiring.advice import name_matrix
from semiring.errors import DivergenceError, NegativeCycleError, cycle_text

__all__ = ["input_name", "name_cycle_vertices"]


def input_name(source: str) -> str:
    """Return the name of INPUT for messages: the name of the file, or <stdin>."""
    return "<stdin>" if source == "-" else source


@contextlib.contextmanager
def name_cycle_vertices(names: Sequence[Any] | None, source: str = "A") -> Iterator[None]:
    """Return a context that names the vertices in an error about a cycle.

    Warnings about entries call the matrix ``source``, the name of its file, and name its vertices.
    """
    try:
        with name_matrix(source, names):
            yield
    except NegativeCycleError as error:
        if names is None or not error.cycle:
            raise
        named, numbered = cycle_text([names[vertex] for vertex in error.cycle]), cycle_text(error.cycle)
        message = str(error)
        stated = message.replace(numbered, named) if numbered in message else f"{message} ({named})"
        raise type(error)(stated, error.cycle) from None
    except DivergenceError as error:
        raise error.named(names) from None
