"""Load the network, choose the semiring, and print results as text or JSON, for all commands."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from types import TracebackType
from typing import IO, Any

import numpy as np

from semiring.advice import escape, name_matrix, quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import ALIASES, CATALOGUE, as_semiring
from semiring.arrays.bits import BitMatrix
from semiring.data import NETWORKS, load_network
from semiring.errors import DivergenceError, NegativeCycleError, SemiringError, cycle_text
from semiring.io import Network, format_of, read, with_positions, write
from semiring.io.edge_list import write_edge_list
from semiring.io.network import symmetrize
from semiring.io.text import is_count, numbers_as_text
from semiring.terminal import ProgressBar

__all__ = [
    "Report",
    "check_outputs",
    "chosen_semiring",
    "defined_semiring",
    "find_vertex",
    "format_number",
    "format_with_unit",
    "input_name",
    "load",
    "name_cycle_vertices",
    "names_as_text",
    "report_network",
    "save_matrix",
    "vertex_key",
    "vertex_name",
]


class Report:
    """The output of a command: lines of text, or with ``--json`` the facts, as one object in one line.

    The output goes to standard output. Lines go to standard error when standard output carries the data (``-o -``). The
    report is a context manager, which prints the object at its end. It also prints the object if no path exists, but
    not after an error.
    """

    def __init__(self, output: str | None = None, *, as_json: bool = False) -> None:
        self.stream: IO[str] = sys.stderr if output == "-" else sys.stdout
        self.facts: dict[str, Any] | None = {} if as_json else None

    def __call__(self, *lines: str) -> None:
        if self.facts is None:
            self._print(*(escape(line, tabs=True) for line in lines))

    def _print(self, *lines: str) -> None:
        # A reader that closes the pipe early (`| head`) must not prevent the requested files from being written.
        with suppress(BrokenPipeError):
            for line in lines:
                print(line, file=self.stream)

    def add_facts(self, **facts: Any) -> None:
        """Add facts to the object of ``--json``."""
        if self.facts is not None:
            self.facts.update(facts)

    def add_file(self, path: str, verb: str = "wrote") -> None:
        """Report that a file was written or drawn."""
        self(f"{verb} {path}")
        if self.facts is not None:
            self.facts.setdefault("written", []).append(path)

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.facts and error is None:  # ranks other than the first report nothing
            self._print(json.dumps(_to_json_type(self.facts), allow_nan=False))

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and values in aligned columns."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self(f"  {name:<{width}}  {value}")


def _to_json_type(value: Any) -> Any:
    """Return the value as a type of JSON.

    Infinite numbers and NaN become texts that float() and JavaScript's Number() parse.
    """
    if isinstance(value, dict):
        return {str(key): _to_json_type(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_type(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _to_json_type(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


# ------------------------------------------------------------------------------------------------------------ input


def defined_semiring(arguments: argparse.Namespace, name: str) -> Semiring | None:
    """Return the semiring that --add, --mul, ... define, or None if none of these options is given."""
    definition = {key: getattr(arguments, key) for key in ("add", "mul", "zero", "one", "star", "domain")}
    if all(value is None for value in definition.values()):
        return None
    missing = [f"--{key}" for key in ("add", "mul", "zero", "one") if definition[key] is None]
    if missing:
        raise SemiringError(f"a semiring of your own also needs {', '.join(missing)}")
    if name in CATALOGUE or name in ALIASES:
        raise SemiringError(
            f"{name} is a semiring of the library: give your own another name, or leave --add, --mul, --zero and --one "
            "out"
        )
    return Semiring(name, **definition)


def chosen_semiring(arguments: argparse.Namespace) -> Semiring:
    """Return the semiring that -s names or --add and the other options define; min_plus by default."""
    own = defined_semiring(arguments, arguments.semiring or "custom")
    return own if own is not None else as_semiring(arguments.semiring or "min_plus")


def load(arguments: argparse.Namespace, semiring: Semiring, *, sparse: bool = False) -> Network:
    """Load the network that INPUT names: a file, standard input, or a network of the library.

    The matrix is ``sparse`` where a file lists edges.
    """
    source: str = arguments.input
    if source in NETWORKS and not os.path.exists(source):
        reading = ("header", "weight", "columns", "encoding", "decimal")
        if any(getattr(arguments, option) is not None for option in reading):
            names = ", ".join(f"--{option}" for option in reading)
            raise SemiringError(f"{names} are for files, and {source} comes with the library")
        network = load_network(source, semiring, dtype=arguments.dtype)
        if not arguments.directed:
            network = replace(network, matrix=symmetrize(network.matrix, semiring), directed=False)
    else:
        if source != "-" and not os.path.exists(source):
            names = ", ".join(NETWORKS)
            raise FileNotFoundError(2, f"no such file, and no network of the library has that name ({names})", source)
        network = read(
            source,
            semiring,
            dtype=arguments.dtype,
            directed=None if arguments.directed else False,
            sparse=sparse,
            header=arguments.header,
            weight=arguments.weight,
            columns=arguments.columns,
            encoding=arguments.encoding,
            decimal=arguments.decimal or ".",
        )
    if not (semiring.tropical or semiring.name in ("max_min", "min_max")):
        network = replace(network, unit="")  # a product of lengths is no length
    if network.names is not None and len(set(map(str, network.names))) < len(network.names):
        raise SemiringError(f"{source}: two vertices have the same name, as a number and as a text: rename one of them")
    positions = getattr(arguments, "positions", None)
    return network if positions is None else with_positions(network, positions)


def find_vertex(network: Network, name: str) -> int:
    """Return the index of the vertex with that name, number or (if it is unique) label."""
    n = network.matrix.shape[0]
    if network.names is None:
        if is_count(name) and int(name) < n:
            return int(name)
        raise SemiringError(
            f"no vertex is named {quote(name)}: they are 0 … {n - 1}"
            if n
            else f"no vertex is named {quote(name)}: {network.title} holds no edges and no vertices: is it the right "
            "file?"
        )
    names = [str(own) for own in network.names]
    if name in names:
        return names.index(name)
    lowered = name.casefold()
    for texts in (names, network.labels or ()):
        matches = [vertex for vertex, text in enumerate(texts) if text.casefold() == lowered]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SemiringError(
                f"{quote(name)} may be {', '.join(names[vertex] for vertex in matches[:8])}: give one of these names"
            )
    folded = {text.casefold(): text for text in (*(network.labels or ()), *names)}
    close = get_close_matches(lowered, folded, n=3) or [text for text in folded if lowered in text][:3]
    near = [folded[text] for text in close]
    some = ", ".join(names[:6]) + ("" if len(names) <= 6 else f" … {names[-1]}")
    hint = f"did you mean {' or '.join(repr(text) for text in near)}?" if near else f"they are {some}"
    raise SemiringError(f"no vertex is named {quote(name)}: {hint}")


# ----------------------------------------------------------------------------------------------------------- output

_LARGE = 1 << 30  # bytes from which the size of a file is announced


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise an error for outputs that cannot be written, and for missing GPUs, before any work is done."""
    if getattr(arguments, "device", None) is not None:
        from semiring.arrays.device import check_device

        check_device(arguments.device)
    if arguments.output == "-" and arguments.json:
        raise SemiringError("--json and -o - both write to standard output: use one of them, or -o FILE")
    _check_overwriting(arguments)
    if arguments.output is not None:
        format_of(arguments.output)
    for key in ("output", "predecessors", "plot"):
        path = getattr(arguments, key, None)
        folder = os.path.dirname(path) if path not in (None, "-") else ""
        if folder and not os.path.isdir(folder):
            raise FileNotFoundError(2, "no such folder", folder)
    if arguments.plot is not None:
        from semiring.plot.style import check_picture, require_matplotlib

        check_picture(arguments.plot)
        require_matplotlib()


def _check_overwriting(arguments: argparse.Namespace) -> None:
    """Raise `SemiringError` where an output file is also an input, or the output of another option.

    The closure of a matrix in a file may replace the file.
    """

    def file_options(*options: str) -> dict[str, str]:
        paths = {option: getattr(arguments, option.removeprefix("--").lower(), None) for option in options}
        return {option: path for option, path in paths.items() if path not in (None, "-")}

    read = file_options("INPUT", "--positions")
    for option, path in file_options("--output", "--predecessors", "--plot", "--journal").items():
        own = option == "--output" and hasattr(arguments, "journal") and path.endswith((".npy", ".npz"))
        for other, input_path in read.items():
            if not (own and other == "INPUT") and _is_same_file(path, input_path):
                reason = "is the input" if other == "INPUT" else f"is also given for {other}"
                raise SemiringError(f"{path} {reason}: name another file for {option}")
        read[option] = path


def _is_same_file(path: str, other: str) -> bool:
    both_exist = os.path.exists(path) and os.path.exists(other)
    return os.path.samefile(path, other) if both_exist else os.path.realpath(path) == os.path.realpath(other)


def save_matrix(report: Report, path: str, matrix: Any, semiring: Semiring, network: Network) -> None:
    """Write a result: as csv to standard output for "-", otherwise in the format of the file's extension."""
    if path == "-":
        zero = semiring.zero_for(matrix.dtype)
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None) or _TextStream()
        write_edge_list(stream, matrix, zero, names_as_text(network), unit=network.unit)
        return
    _announce_size(path, matrix, semiring, network)
    with ProgressBar("writing") as progress:
        write(path, matrix, semiring, names=network.names, unit=network.unit, progress=progress)
    report.add_file(path)
    named = network.names is not None and (kind := format_of(path)) in ("npy", "mtx", "gr")
    if named and (kind == "npy" or network.names != tuple(range(1, len(matrix) + 1))):
        print(
            f"semiring: note: {path} holds no names of vertices: write .npz, .csv or .json to keep them",
            file=sys.stderr,
        )


def _announce_size(path: str, matrix: Any, semiring: Semiring, network: Network) -> None:
    """Print the estimated size of a large file before it is written, from a sample of the listed entries."""
    kind, nbytes = format_of(path), 0 if isinstance(matrix, BitMatrix) else matrix.nbytes
    zero = semiring.zero_for(matrix.dtype)
    if kind in ("npy", "npz"):
        note, size = "", float(nbytes)
    elif matrix.size < _LARGE // 8:
        return
    else:
        count = matrix.count() if isinstance(matrix, BitMatrix) else int(np.count_nonzero(matrix != zero))
        some = np.array([True]) if isinstance(matrix, BitMatrix) else matrix[: max(1, 1000 // len(matrix))]
        names = names_as_text(network) or [str(len(matrix) - 1)]
        letters = [sum(map(len, texts)) / max(1, len(texts)) for texts in (names, numbers_as_text(some[some != zero]))]
        size = count * (2 * letters[0] + letters[1] + (60 if kind == "json" else 3))
        note = f", {count:,} entries" + (f"; .npy takes {nbytes / 1e9:.1f} GB" if nbytes else "")
    if size > _LARGE:
        print(f"semiring: note: {path} will take up to {size / 1e9:.1f} GB{note}", file=sys.stderr)


class _TextStream:
    """A binary stream over a standard output without a buffer of bytes, as in a notebook."""

    def write(self, content: bytes, /) -> None:
        sys.stdout.write(content.decode())


def names_as_text(network: Network) -> list[str] | None:
    """Return the names of the vertices as texts, or None where they have none."""
    return None if network.names is None else [str(name) for name in network.names]


def vertex_key(network: Network, vertex: int) -> Any:
    """Return the name of a vertex for JSON, or its number where vertices have no names."""
    return int(vertex) if network.names is None else network.names[vertex]


def vertex_name(network: Network, vertex: int) -> str:
    """Return the name of a vertex, with its label if it has one."""
    if network.names is None:
        return str(vertex)
    name = str(network.names[vertex])
    label = network.labels[vertex] if network.labels is not None else name
    return name if label == name else f"{name} ({label})"


def report_network(report: Report, network: Network, semiring: Semiring) -> None:
    """Print the title, vertices, edges, semiring and dtype of the network in one line."""
    n, dtype = network.matrix.shape[0], str(network.matrix.dtype)
    if not n:
        note = "holds no edges and no vertices: is it the right file?"
        print(f"semiring: note: {network.title} {note}", file=sys.stderr)
    values = network.matrix if isinstance(network.matrix, np.ndarray) else network.matrix.data
    edges = int(np.count_nonzero(values != semiring.zero_for(values.dtype)))
    zero, diagonal = semiring.zero_for(values.dtype), network.matrix.diagonal()  # 0 where no loop is stored
    loops = int(np.count_nonzero((diagonal != zero) & ((diagonal != 0) | (values.ndim == 2))))
    if n and values.ndim == 2 and (values.diagonal() == semiring.one_for(values.dtype)).all():
        edges, loops = edges - n, 0  # the diagonal holds empty paths, as in a matrix of distances
    if not network.directed:  # the matrix holds an edge in both directions, and a loop once
        edges = (edges + loops) // 2
    facts = {"title": network.title, "vertices": n, "edges": edges, "semiring": semiring.name, "dtype": dtype}
    counts = f"{n:,} {'vertex' if n == 1 else 'vertices'}, {edges:,} edge{'s' * (edges != 1)}"
    report(f"{network.title}: {counts}, {semiring.name} {dtype}")
    report.add_facts(network={**facts, "unit": network.unit})


def format_number(value: Any) -> str:
    """Format a number for people: 8,443 and 0.125 and ∞, with six digits, and all digits of whole numbers."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool):
        return "yes" if number else "no"
    if isinstance(number, float):
        if math.isnan(number):
            return "NaN"
        if number in (float("inf"), float("-inf")):
            return "∞" if number > 0 else "-∞"
        if abs(number) >= 1e15 or 0 < abs(number) < 1e-4:
            return f"{number:.6g}"
        if number != int(number):
            places = max(0, 6 - len(str(int(abs(number)))))
            text = f"{number:,.{places}f}"
            return text.rstrip("0").rstrip(".") if places else text
    return f"{int(number):,}"


def format_with_unit(value: Any, unit: str) -> str:
    """Format a number with its unit."""
    return f"{format_number(value)} {unit}".rstrip()


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
