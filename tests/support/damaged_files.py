"""Read thousands of damaged files in this process, which is one that may die: ``damaged_files.py FORMAT COUNT SEED``.

Each file is a small valid one with some bytes, numbers or lines changed. A reader must return what the file says, or
raise an error of the library, within seconds and without memory for what a header promises. What a file says is read
once more by a few lines of Python, where these understand it. The program prints a summary as JSON. When it dies, the
file that it read last is in the current folder.
"""

from __future__ import annotations

import collections
import faulthandler
import gzip
import io
import json
import resource
import sys
import time
import warnings
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import scipy.sparse as sp

import semiring as sr
from semiring.arrays import memory
from semiring.errors import SemiringError
from semiring.io import with_positions, write

INF = np.inf
SECONDS = 60  # that `_WATCHED` files may take before the process ends with a traceback
_WATCHED = 100
ROOM = 1 << 30  # bytes of addresses beyond those that the process has at first
MATRIX = np.array([[INF, 2.5, INF, 7], [1, INF, -3, INF], [INF, INF, 0, 4], [12, INF, INF, INF]])
NAMES = ["Ulm", "Kiel", "Jena", "Köln"]
#: Texts that are put into files beside random bytes.
TOKENS = [
    *(b"-1", b"0", b"1e999", b"-1e999", b"nan", b"inf", b"9007199254740993", b"9223372036854775807", b"2147483648"),
    *(b"99999999999999999999", b"0.1", b"3,5", b"1_000", b"0x10", b"", b" ", b"\t", b"\r", b"\n", b"\0", b'"', b","),
    *(b";", b"{", b"}", b"[", b"]", b"null", b"true", b"#", b"%", b"a", b"p sp 4 4", b"\xff\xfe", b"\xef\xbb\xbf"),
]


def write_to_bytes(name: str, *arguments: object, **options: object) -> bytes:
    """Return the bytes of a file that the library writes."""
    write(name, *arguments, **options)
    return Path(name).read_bytes()


def save_to_bytes(function: object, *arrays: object, **options: object) -> bytes:
    """Return the bytes that a function of NumPy or SciPy saves."""
    stream = io.BytesIO()
    function(stream, *arrays, **options)
    return stream.getvalue()


def valid_files(kind: str) -> list[bytes]:
    """Return some valid files of a format."""
    whole = np.full(MATRIX.shape, np.iinfo(np.int64).max)
    np.copyto(whole, MATRIX, where=np.isfinite(MATRIX), casting="unsafe")
    if kind == "npy":
        return [save_to_bytes(np.save, A) for A in (MATRIX, whole, MATRIX.astype(np.float32).T, np.isfinite(MATRIX))]
    if kind == "npz":
        dense = [write_to_bytes("seed.npz", MATRIX, names=NAMES), save_to_bytes(np.savez, matrix=MATRIX)]
        A = sp.csr_array(np.where(np.isinf(MATRIX), 0, MATRIX))
        kinds = [save_to_bytes(sp.save_npz, A.asformat(form)) for form in ("csr", "csc", "coo", "bsr", "dia")]
        return [*dense, *kinds, save_to_bytes(sp.save_npz, A, compressed=False)]
    if kind == "mtx":
        general = write_to_bytes("seed.mtx", MATRIX)
        lines = [b"%%MatrixMarket matrix array real general\n% a comment\n2 2\n1.5\n2\n-3e2\n4\n"]
        lines.append(b"%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n2 1 5\n3 3 -7\n")
        lines.append(b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n2 1\n3 3\n")
        return [general, *lines]
    if kind == "json":
        own = [write_to_bytes("seed.json", MATRIX, names=NAMES), write_to_bytes("seed.json", whole, "min_plus")]
        return [*own, own[0].replace(b'"edges"', b'"links"')]
    if kind == "positions":
        return [b"name,x,y,label\n0,1.5,2,a\n1,3,4,b\n", b"id\tlongitude\tlatitude\n0\t8.5\t47\n"]
    if kind == "gr":
        return [write_to_bytes("seed.gr", MATRIX), write_to_bytes("seed.gr", whole)]
    if kind in ("graphml", "gml"):
        graph = sr.Network(np.where(np.isfinite(MATRIX), MATRIX, INF), names=NAMES).to_networkx()
        return [save_to_bytes(lambda stream, held: getattr(nx, f"write_{kind}")(held, stream), graph)]
    quoted = ["a,b", 'say "x"', "#5", "d e"]
    files = [write_to_bytes(f"seed.{kind}", MATRIX, names=NAMES), write_to_bytes(f"seed.{kind}", whole)]
    return [*files, write_to_bytes(f"seed.{kind}", MATRIX, names=quoted), b"Ulm Kiel\nKiel Jena\n", b"0;1;2.5\n1;2;3\n"]


# ------------------------------------------------------------------------------------------------- damage


def damage(rng: np.random.Generator, content: bytes, contents: list[bytes]) -> bytes:
    """Return the content with one to three changes."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        content = _change(rng, content, contents)
    return content


def _change(rng: np.random.Generator, content: bytes, contents: list[bytes]) -> bytes:
    n = len(content)
    i, j = sorted(rng.integers(0, n + 1, 2).tolist())
    kind = rng.integers(9)
    if kind == 0 and n:
        at = int(rng.integers(n))
        return content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :]
    if kind == 1 and n:
        at = int(rng.integers(n))
        return content[:at] + rng.bytes(1) + content[at + 1 :]
    if kind == 2:
        return content[:i]
    if kind == 3:
        return content[:i] + content[j:]
    if kind == 4:
        return content[:j] + content[i:j] + content[j:]
    if kind == 5:
        return content[:i] + TOKENS[rng.integers(len(TOKENS))] + content[i:]
    if kind == 6:
        other = contents[rng.integers(len(contents))]
        return content[:i] + other[int(rng.integers(len(other) + 1)) :]
    if kind == 7:  # a word becomes another
        words = content.split(b" ") if b" " in content else content.split(b",")
        words[rng.integers(len(words))] = TOKENS[rng.integers(len(TOKENS))]
        return (b" " if b" " in content else b",").join(words)
    lines = content.split(b"\n")
    lines.insert(int(rng.integers(len(lines) + 1)), lines[rng.integers(len(lines))])
    return b"\n".join(lines)


def damaged_archive(rng: np.random.Generator, content: bytes) -> bytes:
    """Return a .npz file with valid checksums whose arrays are damaged, exchanged or gone."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    which = int(rng.integers(len(members)))
    name, held = members[which]
    kind = rng.integers(6)
    if kind < 3:
        array = np.load(io.BytesIO(held))
        if array.dtype.kind in "iuf" and array.size:
            flat = array.reshape(-1).copy()
            limits = [-1, 0, 1, 4, 5, 100000, 2**31 - 1, -(2**31), 2**62]
            with np.errstate(all="ignore"):
                flat[rng.integers(flat.size)] = np.array(limits[rng.integers(len(limits))]).astype(flat.dtype)
            array = flat.reshape(array.shape)
        if kind == 1:
            array = (
                array.astype(rng.choice(["i8", "i2", "u8", "f4", "U3", "?"])) if array.dtype.kind in "iuf" else array
            )
        if kind == 2 and array.ndim:
            array = array[: rng.integers(len(array) + 1)]
        held = save_to_bytes(np.save, array)
    elif kind == 3:
        held = damage(rng, held, [other for _, other in members])
    elif kind == 4:
        held = members[rng.integers(len(members))][1]
    members[which] = (name, held)
    if kind == 5:
        members.pop(which)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, held in members:
            archive.writestr(name, held)
    return stream.getvalue()


# ------------------------------------------------------------------------------------------------- what a file says


def read_weights(kind: str, content: bytes) -> dict[tuple[str, str], object] | None:
    """Return the weights of the edges that a file lists by the names of their ends, or None if it is uncertain."""
    found: dict[tuple[str, str], object] = {}

    def add(tail: object, head: object, weight: object) -> None:
        key = str(tail), str(head)
        found[key] = min(found[key], weight) if key in found else weight

    try:
        if kind == "gr":
            for line in content.decode().split("\n"):
                fields = line.split()
                if fields[:1] == ["a"]:
                    add(int(fields[1]), int(fields[2]), number(fields[3]))
            return found
        if kind == "mtx":
            first, *lines = content.decode().split("\n")
            words = first.lower().split()
            if words[2] != "coordinate" or words[4] == "skew-symmetric":
                return None
            _, *entries = [line.split() for line in lines if line.strip() and not line.startswith("%")]
            for fields in entries:
                weight = 1 if words[3] == "pattern" else number(fields[2])
                add(fields[0].lstrip("0"), fields[1].lstrip("0"), weight)
                if words[4] != "general":
                    add(fields[1].lstrip("0"), fields[0].lstrip("0"), weight)
            return found
        if kind == "json":
            held = json.loads(content)
            edges = held.get("edges", held.get("links"))
            if any(type(node["id"]) not in (str, int) for node in held["nodes"]):
                return None
            for edge in edges:
                add(edge["source"], edge["target"], edge["weight"])
                if not held.get("directed", False):
                    add(edge["target"], edge["source"], edge["weight"])
            return found
        if kind in ("npy", "npz"):
            held = np.load(io.BytesIO(content))
            array, names = (held, None) if kind == "npy" else (held["matrix"], held.get("names"))
            if array.dtype.kind not in "iuf":
                return None
            top = np.iinfo(array.dtype).max if array.dtype.kind == "i" else INF
            for (i, j), weight in np.ndenumerate(array):
                if weight != top:
                    found[(str(i), str(j)) if names is None else (str(names[i]), str(names[j]))] = weight.item()
            return found
        if kind in ("csv", "tsv"):
            text, mark = content.decode(), "," if kind == "csv" else "\t"
            first, *lines = text.split("\n")
            if first != mark.join(("source", "target", "weight")) or set('"#%\r\f\v\x1c\x1d\x1e\x85') & set(text):
                return None
            for line in filter(str.strip, lines):
                tail, head, weight = (field.strip() for field in line.split(mark))
                if head:
                    add(tail, head, number(weight))
            return found
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError, zipfile.BadZipFile):
        return None
    return None


def number(text: str) -> object:
    """Return a number as files hold it: integers beyond 64 bits are floats."""
    try:
        whole = int(text)
    except ValueError:
        return float(text)
    return whole if -(2**63) <= whole < 2**63 else float(whole)


def agrees(network: sr.Network, edges: dict[tuple[str, str], object]) -> bool:
    """Return whether a network over min-plus has these edges, and no others."""
    matrix = network.matrix
    none = sr.min_plus.zero_for(matrix.dtype)
    names = [str(name) for name in (network.names or range(len(matrix)))]
    rows, columns = np.nonzero(matrix != none)
    there = {(names[i], names[j]): matrix[i, j].item() for i, j in zip(rows, columns, strict=True)}
    edges = {ends: weight for ends, weight in edges.items() if weight != INF}
    if matrix.dtype == np.float32:
        edges = {ends: float(np.float32(weight)) for ends, weight in edges.items()}
    return there == edges


# ------------------------------------------------------------------------------------------------- the search


def main(kind: str, count: int, seed: int) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    plain = kind.removesuffix(".gz")
    files = valid_files(plain)
    path = Path(f"damaged.{kind}" if plain != "positions" else "damaged.csv")
    outcomes: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    slowest = compared = 0.0
    memory.free_memory = lambda: 1 << 26
    memory._SMALL = 1 << 20
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    graph = sr.Network(MATRIX)
    for number in range(count):
        if number % _WATCHED == 0:
            faulthandler.dump_traceback_later(SECONDS, exit=True)
        content = files[rng.integers(len(files))]
        if kind == "npz" and rng.random() < 0.7:
            content = damaged_archive(rng, content)
        elif not (kind.endswith(".gz") and rng.random() < 0.5):
            content = damage(rng, content, files)
        given = content
        if kind.endswith(".gz"):
            content = gzip.compress(content, 1, mtime=0)
            content = damage(rng, content, [content]) if rng.random() < 0.5 else content
        path.write_bytes(content)
        dtype = rng.choice([None, None, None, "float32", "float64", "int64", "int16"])
        began = time.perf_counter()
        try:
            if plain == "positions":
                with_positions(graph, path)
            else:
                network = sr.read(path, dtype=dtype)
            outcomes["read"] += 1
        except SemiringError as error:
            outcomes[type(error).__name__] += 1
            network = None
            if "\n" in str(error) or not str(error):
                failures.append(f"{error!r} for {given[:300]!r}")
        except BaseException as error:
            outcomes[type(error).__name__] += 1
            network = None
            failures.append(f"{type(error).__name__}: {error} for {given[:300]!r}, dtype={dtype}")
        slowest = max(slowest, time.perf_counter() - began)
        if kind == plain and network is not None and dtype != "int16":
            edges = read_weights(plain, given)
            if edges is not None:
                compared += 1
                if not agrees(network, edges):
                    failures.append(f"read as {network.matrix.tolist()}: {given[:300]!r}, dtype={dtype}")
    faulthandler.cancel_dump_traceback_later()
    return {
        "outcomes": dict(outcomes),
        "failures": failures[:10],
        "failed": len(failures),
        "slowest": round(slowest, 3),
        "compared": int(compared),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    faulthandler.enable()
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
