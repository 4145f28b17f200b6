"""Find the modules that a compiled kernel consists of, from imports, and compute a digest of their code.

A kernel consists of the module whose function is compiled, and of every module that this one imports, at any depth.
Numba compiles the functions that a loop calls into it, and the constants that it reads. Imports inside functions count,
and so do imports for annotations, which name the classes of arguments. Modules outside `KERNELS` prepare the calls of
kernels and are not followed. Numbers and texts that a kernel's module imports from them are part of the digest by their
values.

The digest is that of syntax trees without docstrings: comments and line numbers do not change it. Parsing takes 5 ms a
module, so the digest of each file's content is stored on disk beside the kernels. Every process reads and hashes the
files themselves.

A file that changed after this process loaded the library is not the code that the process runs. Kernels made of it have
no fingerprint: they are neither read from disk nor stored there.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from semiring.kernels import LOAD_TIME, code_store

#: The modules and packages that hold code generators, compiled loops, and the classes of their arguments.
KERNELS = (
    "semiring.algebra.expressions",
    "semiring.kernels.cpu",
    "semiring.kernels.cuda",
    "semiring.kernels.definition",
    "semiring.kernels.graphs",
    "semiring.kernels.machines.speed_data",
)

_LIBRARY = "semiring"
_FOLDER = Path(__file__).parents[1]


class Source(NamedTuple):
    """The digest of a module's code, and its imports from the library: pairs of a module and a name in it, or ""."""

    digest: str
    imports: tuple[tuple[str, str], ...]


def fingerprint(modules: tuple[str, ...], versions: object) -> str | None:
    """Return a digest of the code of kernels that these modules define, and of the versions of their compilers.

    Return None if no folder stores kernels, if a source cannot be read, or if a source is newer than the running code.
    """
    if not code_store.is_enabled():
        return None
    try:
        code = _digest(modules)
    except (OSError, SyntaxError):
        return None
    return hashlib.sha256(f"{code}\n{versions!r}".encode()).hexdigest()


@cache
def _digest(modules: tuple[str, ...]) -> str:
    snapshot = dict(_known_sources())
    sources = find_sources(modules)
    if _known_sources() != snapshot:
        code_store.save(_own_version(), str(_FOLDER), _known_sources(), kind=code_store.DIGESTS)
    code = [(name, source.digest) for name, source in sources.items()]
    return hashlib.sha256(repr((sorted(code), sorted(constants(sources)))).encode()).hexdigest()


def find_sources(modules: Iterable[str]) -> dict[str, Source]:
    """Return the sources of the kernels of these modules, by the names of their modules.

    Raises `OSError` if a source cannot be read or is newer than the running code.
    """
    result: dict[str, Source] = {}
    queue = list(modules)
    while queue:
        module = queue.pop()
        if module not in result:
            result[module] = _source(module)
            for package, name in result[module].imports:
                queue += [
                    each for each in (package, f"{package}.{name}") if _has_kernel_code(each) and _is_module(each)
                ]
    return result


def constants(sources: dict[str, Source]) -> Iterator[tuple[str, str, str]]:
    """Yield the constants that sources import from modules outside `KERNELS`: the module, the name, and the value."""
    imports = {pair for source in sources.values() for pair in source.imports}
    for module, name in sorted(imports):
        if name and not _has_kernel_code(module) and not _is_module(f"{module}.{name}"):
            value = getattr(import_module(module), name)
            if is_constant(value):
                yield module, name, repr(value)


def is_constant(value: Any) -> bool:
    """Return whether a value is a number, a text, None, a dtype, or a tuple of such values."""
    if isinstance(value, tuple):
        return all(map(is_constant, value))
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | np.dtype)


def parse(content: bytes, package: str) -> Source:
    """Return the digest and the imports of a module of that content, whose relative imports begin at ``package``."""
    tree = ast.parse(content)
    imports = tuple(sorted(set(_imports(tree, package))))
    code = ast.dump(_WithoutDocstrings().visit(tree))
    return Source(hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest(), imports)


class _WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            imports = [(module, alias.name) for alias in node.names]
        else:
            continue
        yield from (pair for pair in imports if pair[0].partition(".")[0] == _LIBRARY)


def _has_kernel_code(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in KERNELS)


@cache
def _source(module: str) -> Source:
    path = _path(module)
    content, status = path.read_bytes(), path.stat()
    if max(status.st_mtime, status.st_ctime) > LOAD_TIME:
        raise OSError(f"{path} changed after the library was loaded")
    content_digest, digests = hashlib.sha256(content).hexdigest(), _known_sources()
    if module not in digests or digests[module][0] != content_digest:
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        digests[module] = content_digest, parse(content, package)
    return digests[module][1]


@cache
def _known_sources() -> dict[str, tuple[str, Source]]:
    """Return the digest of the content and the source of each module that earlier processes parsed."""
    return code_store.load(_own_version(), str(_FOLDER), dict, kind=code_store.DIGESTS) or {}


@cache
def _own_version() -> str:
    return hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()


@cache
def _is_module(name: str) -> bool:
    return _path(name).is_file()


def _path(module: str) -> Path:
    """Return the file of a module. Raise `OSError` if a module outside the library has no file."""
    library, *parts = module.split(".")
    if library == _LIBRARY:
        path = _FOLDER.joinpath(*parts)
        package = path / "__init__.py"
        return package if package.is_file() else path.with_name(f"{path.name}.py")
    loaded = sys.modules.get(module)
    spec = find_spec(module) if loaded is None else None
    file = getattr(loaded, "__file__", None) if spec is None else spec.origin
    if file is None:
        raise FileNotFoundError(f"the module {module} has no file")
    return Path(file)
