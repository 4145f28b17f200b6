"""What the command line accepts. Nothing heavy is imported until a command runs."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from semiring.algebra import DTYPES
from semiring.algebra.catalogue import CATALOGUE
from semiring.io import FORMATS
from semiring.io.text import is_count

__all__ = ["KINDS", "LANGUAGES", "build_parser"]

#: What ``paths --kind`` takes: the name, the function of `semiring.paths`, the semiring.
KINDS = {
    "shortest": ("shortest_paths", "min_plus"),
    "longest": ("longest_paths", "max_plus"),
    "widest": ("widest_paths", "max_min"),
    "reliable": ("most_reliable_paths", "max_times"),
}

#: What ``code --as`` takes: the keys of `semiring.kernels.listing.LANGUAGES`.
LANGUAGES = ("expression", "llvm", "asm", "cuda", "ptx", "sass")

INPUT_HELP = (
    f"a file ({', '.join(FORMATS)}; text also with .gz), - for an edge list on standard input, "
    "or the name of a network that comes with the library (us-flights)"
)


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line and exit code 2, like every other error of the command. -inf is a number, as -1 is."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf$)")
        self.instead: dict[str, str] = {}  # of options that other commands have

    def read(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """What the arguments say. An option that a command does not know is an error of that command."""
        found, rest = self.parse_known_args(argv)
        if rest:
            command = found.command
            option = rest[0].partition("=")[0]
            close = get_close_matches(option, command._option_string_actions, n=1)
            near = command.instead.get(option) or "".join(close)
            hint = f": did you mean {near}?" if near else ""
            command.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return found

    def error(self, message: str) -> NoReturn:
        print(f"semiring: error: {message} (try {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


class Once(argparse.Action):
    """A vertex; of two, argparse itself would forget the first without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: object, option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            tables = "in Python sources= and targets= take lists, and make tables"
            raise argparse.ArgumentError(self, f"given twice, and takes one vertex: {tables}")
        setattr(namespace, self.dest, value)


class Version(argparse.Action):
    """Looks the version up only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from semiring.cli.info import version

        print(f"semiring {version('semiring')}")
        parser.exit()


def build_parser() -> Parser:
    """The parser; ``run`` of what it returns is the function that does the work."""
    parser = Parser(
        prog="semiring", description="Closures and paths of networks over any semiring.", allow_abbrev=False
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    _add_paths(commands)
    _add_closure(commands)
    _add_check(commands)
    _add_code(commands)
    info = commands.add_parser("info", help="versions, devices, threads, caches, and which semiring knows which dtype")
    info.set_defaults(run=_lazily("info"))
    _add_tune(commands)
    for command in commands.choices.values():
        command.set_defaults(command=command)
        command.add_argument("--json", action="store_true", help="print one JSON object, for programs to read")
    return parser


def _lazily(command: str) -> object:
    def run(arguments: argparse.Namespace) -> int:
        from semiring.cli.common import Report

        with Report(getattr(arguments, "output", None), as_json=arguments.json) as report:
            return int(import_module(f"semiring.cli.{command}").run(arguments, report))

    return run


def _add_paths(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "paths",
        help="best paths between all pairs of vertices, and what follows from them",
        description="Find the best paths between all pairs of vertices; print one of them, or those from a vertex.",
        epilog="example: semiring paths us-flights --from ADK --to STX --plot path.png",
        allow_abbrev=False,
    )
    _add_input(parser)
    parser.add_argument(
        "--from",
        action=Once,
        dest="source",
        metavar="NAME",
        help="the vertex where paths begin; without -o, --predecessors and --plot no other paths are found",
    )
    parser.add_argument("--to", action=Once, dest="target", metavar="NAME", help="the vertex where paths end")
    parser.add_argument(
        "--kind", choices=KINDS, default="shortest", help="what makes a path the best (default: shortest)"
    )
    parser.instead = dict.fromkeys(("-s", "--semiring"), f"--kind {'|'.join(KINDS)}")
    parser.add_argument(
        "--predecessors",
        metavar="FILE",
        help="write the matrix of predecessors (.npy, .npz, .csv, .tsv, .txt, .edges, .edgelist)",
    )
    parser.add_argument(
        "--without",
        nargs=2,
        action="append",
        default=[],
        metavar=("FROM", "TO"),
        help="as if the edge from FROM to TO were not there; may be given again",
    )
    parser.add_argument(
        "--positions", metavar="FILE", help="where to draw vertices: csv with name, x, y, or DIMACS .co"
    )
    _add_work(parser, "distances")
    parser.set_defaults(run=_lazily("paths"))


def _add_closure(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "closure",
        help="the closure of a network's matrix in any semiring",
        description="Compute A* = I ⊕ A ⊕ A² ⊕ … of the matrix of a network: in min_plus, all shortest distances.",
        epilog="example: semiring closure us-flights -s max_min -o capacities.npz --plot map.png",
        allow_abbrev=False,
    )
    _add_input(parser)
    parser.add_argument("-s", "--semiring", metavar="NAME", help=f"default min_plus; one of {', '.join(CATALOGUE)}")
    _add_definition(parser)
    parser.add_argument(
        "--method", metavar="NAME", default="auto", help="auto, or one of the methods that semiring info lists"
    )
    parser.add_argument("--irreflexive", action="store_true", help="A⁺ = A ⊗ A*: without the empty path")
    parser.add_argument("--explain", action="store_true", help="say which method was chosen, and why")
    parser.add_argument(
        "--memory", metavar="SIZE", help="leave the matrix in its .npy file, and take so much memory: 8GiB, 512MiB"
    )
    parser.add_argument(
        "--journal", metavar="FILE", help="keep in FILE how far it is: after a kill the same command goes on"
    )
    _add_work(parser, "closure")
    parser.set_defaults(run=_lazily("closure"))


def _add_check(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "check",
        help="prove or refute the axioms of a semiring",
        description="Prove or refute the laws of a semiring, by name or given here; exit code 1 if one fails.",
        epilog="example: semiring check --add 'max(x, y)' --mul 'x * y' --zero 0 --one 1 --domain '[0, 1]'",
        allow_abbrev=False,
    )
    parser.add_argument(
        "name", nargs="?", help=f"one of {', '.join(CATALOGUE)}; or a name for the definition given here"
    )
    _add_definition(parser)
    parser.add_argument("--dtype", choices=DTYPES, help="look for what only rounding breaks, in this dtype")
    parser.set_defaults(run=_lazily("check"))


def _add_tune(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "tune",
        help="measure what is fastest on this machine, and keep it",
        description="Measure how products are cut best on this machine, for about a minute, and write that into the "
        "user's configuration folder (SEMIRING_CONFIG_DIR). Results stay the same, bit by bit.",
        allow_abbrev=False,
    )
    parser.add_argument("--threads", type=_count, metavar="N", help="how many threads (default: all cores)")
    parser.add_argument("--dry-run", action="store_true", help="measure and print, and write nothing")
    parser.set_defaults(run=_lazily("tune"))


def _add_code(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "code",
        help="what a semiring became: its definition, vector instructions, CUDA C++, machine code",
        description="Show the code that was made of a semiring, by name or given here. No GPU is needed.",
        epilog="example: semiring code min_plus float32 --as asm --target znver4",
        allow_abbrev=False,
    )
    parser.add_argument(
        "name",
        nargs="?",
        help=f"default min_plus; one of {', '.join(CATALOGUE)}; or a name for the definition given here",
    )
    dtypes = (*DTYPES, "float16", "bfloat16")
    parser.add_argument("dtype", nargs="?", default="float64", choices=dtypes, help="default float64")
    parser.add_argument(
        "--as",
        dest="language",
        default="expression",
        metavar="LANGUAGE",
        help=f"{', '.join(LANGUAGES)} (default: expression)",
    )
    parser.add_argument("--target", metavar="NAME", help="a CPU, such as znver4 or apple-m1, or a GPU, such as sm_80")
    parser.add_argument("--nonnegative", action="store_true", help="take every weight for non-negative")
    parser.add_argument("--whole", action="store_true", help="the whole kernel, not the loop over k alone")
    _add_definition(parser)
    parser.set_defaults(run=_lazily("code"))


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="INPUT", help=INPUT_HELP)
    reading = parser.add_argument_group("reading")
    reading.add_argument("--undirected", action="store_true", help="take each edge in both directions")
    reading.add_argument("--dtype", choices=DTYPES, help="of the matrix (default: the file's, else float64)")
    reading.add_argument(
        "--weight", metavar="COLUMN", help="the column of an edge list that holds the weights, by its title"
    )
    reading.add_argument(
        "--columns",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="the columns of an edge list where edges begin and end, by their titles; with --no-header by their "
        "numbers, 1 the first, as the column of the weights",
    )
    header = reading.add_mutually_exclusive_group()
    header.add_argument(
        "--header", action="store_true", default=None, help="the first line of an edge list names the columns"
    )
    header.add_argument(
        "--no-header", dest="header", action="store_false", help="the first line of an edge list is an edge"
    )


def _add_work(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help=f"write the {what} ({', '.join(FORMATS)}; - for csv)")
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg, .pdf); needs matplotlib")
    parser.add_argument("--threads", type=_count, metavar="N", help="how many threads (default: all cores)")
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="do not look for entries outside the domain"
    )


def _add_definition(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("a semiring of your own", "operations over x and y, such as 'max(0, x + y - 1)'")
    own.add_argument("--add", metavar="TEXT", help="⊕")
    own.add_argument("--mul", metavar="TEXT", help="⊗")
    own.add_argument("--zero", metavar="NUMBER", help="0̄, the neutral element of ⊕ (write --zero=-inf)")
    own.add_argument("--one", metavar="NUMBER", help="1̄, the neutral element of ⊗")
    own.add_argument("--star", metavar="TEXT", help="x* over x, nan where there is none")
    own.add_argument("--domain", metavar="INTERVAL", help="such as '[0, inf)'; by default every number")


def _count(text: str) -> int:
    if not is_count(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads")
    return int(text)
