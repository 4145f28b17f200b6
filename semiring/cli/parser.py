"""Parse the arguments of the command line.

Heavy modules are imported when a command runs.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from semiring.advice import ANY
from semiring.algebra import DTYPES
from semiring.algebra.catalogue import ALIASES, CATALOGUE
from semiring.io import FORMATS
from semiring.io.text import is_count

__all__ = ["COMMANDS", "KINDS", "build_parser"]

#: The values of ``paths --kind``: the name, the function of `semiring.paths`, the semiring.
KINDS = {
    "shortest": ("shortest_paths", "min_plus"),
    "longest": ("longest_paths", "max_plus"),
    "widest": ("widest_paths", "max_min"),
    "reliable": ("most_reliable_paths", "max_times"),
}

#: The commands by groups: the name, a summary, and an example, which the tests run.
COMMANDS = {
    "networks": (
        ("paths", "find best paths between vertices", "semiring paths us-flights --from ADK --to STX"),
        ("closure", "close a matrix over a semiring", "semiring closure us-flights -s max_min -o capacities.npz"),
    ),
    "semirings": (("check", "prove or refute the laws", "semiring check min_plus"),),
    "this machine": (
        ("info", "print versions, devices and caches", "semiring info --json"),
        ("tune", "measure the fastest settings", "semiring tune --dry-run"),
        ("precompile", "compile kernels before they are needed", "semiring precompile max_min --dtype float32"),
    ),
}
_LINES = {name: (line, example) for group in COMMANDS.values() for name, line, example in group}


def _format_overview() -> str:
    """Return the list of the commands for ``semiring --help``."""
    lines = ["Closures and best paths of networks over any semiring."]
    for group, commands in COMMANDS.items():
        lines += ["", f"{group}:", *(f"  {name:<10} {line:<38} {example}" for name, line, example in commands)]
    return "\n".join([*lines, "", "semiring COMMAND --help lists the options of a command."])


#: The help text for the name of a semiring.
_NAMES = f"one of {', '.join(CATALOGUE)}, or of their other names {', '.join(ALIASES)}, in lower case"

INPUT_HELP = (
    f"a file ({', '.join(FORMATS)}; text also with .gz), - for an edge list on standard input, "
    "or a network of the library (us-flights). Files in .csv, .tsv, .txt, .edges and .edgelist are "
    "lists of edges, never matrices"
)

_EDGE_LISTS = (
    "An edge list has a line for each edge: from,to,weight, such as Ulm,Kiel,7. Its first line may name the columns; "
    "the weights stand in the third column, or in the only other one of numbers, or in that of --weight."
)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with exit code 2, like all errors of the command.

    It parses -inf as a number, as it does -1.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf$)")
        self.hints: dict[str, str] = {}  # hints in errors about options of other commands

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:  # argparse hides the error of a full disk
            (file or sys.stderr).write(message)

    def read(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parse the arguments of the command line.

        An unknown option is reported as an error of its command.
        """
        arguments, rest = self.parse_known_args(argv)
        if rest:
            command = arguments.command
            option = rest[0].partition("=")[0]
            close = get_close_matches(option, command._option_string_actions, n=1)
            hint = command.hints.get(option) or (f": did you mean {close[0]}?" if close else "")
            command.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return arguments

    def spelling(self, name: str, value: object) -> str:
        """Return the option of this command for an argument of the library (`semiring.advice`); "" if there is none."""
        for action in self._actions:
            if action.dest != name or not action.option_strings:
                continue
            text = action.option_strings[-1]
            if action.nargs == 0:  # a flag, which stands for one value
                if action.const == value or value is ANY:
                    return text
                continue
            if value is ANY:
                return text
            listed = (",".join(value),) if name == "device" and isinstance(value, tuple) else value
            words = [shlex.quote(str(word)) for word in (listed if isinstance(listed, tuple) else (listed,))]
            return f"{text}{'=' if words[0].startswith('-') else ' '}{' '.join(words)}"
        return ""

    def error(self, message: str) -> NoReturn:
        print(f"semiring: error: {message} (try {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


class VertexAction(argparse.Action):
    """An option that takes one vertex: argparse itself would silently ignore the first of two."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: object, option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "takes one vertex, and was given twice: run the command for each vertex")
        setattr(namespace, self.dest, value)


class VersionAction(argparse.Action):
    """The option ``--version``, which reads the version only when it is used."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from semiring.cli.info import version

        print(f"semiring {version('semiring')}")
        parser.exit()


def build_parser() -> Parser:
    """Build the parser; ``run`` in its result is the function of the command."""
    parser = Parser(
        prog="semiring",
        usage="semiring COMMAND [OPTIONS]",
        description=_format_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=VersionAction, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", prog="semiring", parser_class=Parser, help=argparse.SUPPRESS
    )
    _add_paths(commands)
    _add_closure(commands)
    _add_check(commands)
    _add_info(commands)
    _add_tune(commands)
    _add_precompile(commands)
    for command in commands.choices.values():
        command.set_defaults(command=command)
        if "--device" not in command._option_string_actions:
            command.hints["--device"] = ": it is an option of paths and closure, and this command needs no GPU"
        command.add_argument("--json", action="store_true", help="print one JSON object, for programs to read")
    return parser


def _runner(command: str) -> object:
    """Return a function that imports the module of a command, and runs it."""

    def run(arguments: argparse.Namespace) -> int:
        from semiring.cli.common import Report
        from semiring.distributed.mpi_communicator import is_first

        if command != "closure" and not is_first():  # only closures share their work among processes
            return 0
        with Report(getattr(arguments, "output", None), as_json=arguments.json) as report:
            return int(import_module(f"semiring.cli.{command}").run(arguments, report))

    return run


def _add_paths(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "paths",
        description="Find the best paths between vertices. With --from and --to, print the path. With one of them, "
        "print the values of all paths from or to that vertex, without the paths. With neither, print a summary of all "
        "pairs. " + _EDGE_LISTS,
        epilog=f"example: {_LINES['paths'][1]}",
        allow_abbrev=False,
    )
    _add_input(parser)
    parser.add_argument(
        "--from",
        action=VertexAction,
        dest="source",
        metavar="NAME",
        help="the vertex where paths begin; only these paths are computed unless -o, --predecessors or --plot is given",
    )
    parser.add_argument("--to", action=VertexAction, dest="target", metavar="NAME", help="the vertex where paths end")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="shortest",
        help="the best path has: shortest (default), the least sum of weights. longest, the greatest sum, for "
        "schedules without cycles that grow. widest, the greatest smallest weight, for capacities. reliable, the "
        "greatest product, for probabilities in [0, 1]",
    )
    parser.hints = dict.fromkeys(
        ("-s", "--semiring"),
        f": did you mean --kind {'|'.join(KINDS)}? In other semirings, semiring closure -s NAME finds the values, and "
        "best_paths in Python the paths",
    )
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
        help="remove the edge from FROM to TO first; may be given several times",
    )
    parser.add_argument(
        "--on-cycle",
        choices=("raise", "unbounded"),
        default="raise",
        help="what a negative cycle between two vertices does (a positive one for longest paths): raise, an error "
        "(default). unbounded, their weight is -inf (inf)",
    )
    parser.add_argument(
        "--positions", metavar="FILE", help="coordinates of the vertices for --plot: csv with name, x, y, or DIMACS .co"
    )
    accepts = "give no warnings about suspicious weights, and accept weights above 1 with --kind reliable"
    _add_work(parser, "distances", f"{accepts}; NaN is an error nevertheless")
    parser.set_defaults(run=_runner("paths"))


def _add_closure(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "closure",
        description="Compute A* = I ⊕ A ⊕ A² ⊕ … of the matrix of a network: in min_plus, all shortest distances.",
        epilog=f"example: {_LINES['closure'][1]}",
        allow_abbrev=False,
    )
    _add_input(parser)
    parser.add_argument("-s", "--semiring", metavar="NAME", help=f"default min_plus; {_NAMES}")
    _add_definition(parser)
    parser.add_argument(
        "--method",
        metavar="NAME",
        default="auto",
        help="auto, or one of the methods that semiring info lists; under mpiexec row_broadcast",
    )
    parser.add_argument(
        "--irreflexive", dest="reflexive", action="store_false", help="A⁺ = A ⊗ A*: without the empty path"
    )
    parser.add_argument("--explain", action="store_true", help="print the method, why it was chosen, and its cost")
    parser.add_argument(
        "--explain-full",
        dest="explain",
        action="store_const",
        const="full",
        help="print every algorithm that was asked, too, with its cost or the reason against it",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="keep the matrix in its .npy file, and use at most this much memory, such as 8GiB",
    )
    parser.add_argument(
        "--journal", metavar="FILE", help="record the progress in FILE: after an interrupt, the same command continues"
    )
    warns = "give no warnings about suspicious weights"
    _add_work(parser, "closure", f"{warns}; NaN is an error nevertheless, except with --memory")
    parser.set_defaults(run=_runner("closure"))


def _add_check(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "check",
        description="Prove or refute the laws of a semiring, by its name or a definition. The exit code is 1 if a law "
        "fails.",
        epilog="example: semiring check --add 'max(x, y)' --mul 'x * y' --zero 0 --one 1 --domain '[0, 1]'",
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", help=f"{_NAMES}; or a name for the definition given here")
    _add_definition(parser)
    parser.add_argument("--dtype", choices=DTYPES, help="measure the rounding errors of the laws in this dtype")
    parser.set_defaults(run=_runner("check"))


def _add_info(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "info",
        description="Print versions, devices, threads, caches, methods of closure, and the dtypes of each semiring.",
        epilog=f"example: {_LINES['info'][1]}",
    )
    parser.set_defaults(run=_runner("info"))


def _add_tune(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "tune",
        description="Measure the fastest block sizes of products on this machine, for about a minute, and store them "
        "in the user's configuration folder (SEMIRING_CONFIG_DIR). Results stay bitwise identical.",
        epilog=f"example: {_LINES['tune'][1]}",
        allow_abbrev=False,
    )
    parser.add_argument("--threads", type=_parse_count, metavar="N", help="how many threads (default: all cores)")
    parser.add_argument("--dry-run", action="store_true", help="print the measurements, and store nothing")
    parser.set_defaults(run=_runner("tune"))


def _add_precompile(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "precompile",
        description="Compile the kernels of semirings for this processor, and store them in the cache folder "
        "(SEMIRING_CACHE_DIR), so that later processes need no compiler.",
        epilog=f"example: {_LINES['precompile'][1]}",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default min_plus; {_NAMES}")
    _add_definition(parser)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=["float64"], help="default float64")
    parser.add_argument("--calls", nargs="+", metavar="WHAT", default=[], help="products, closures, paths, sparse")
    parser.set_defaults(run=_runner("precompile"))


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="INPUT", help=INPUT_HELP)
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--undirected",
        dest="directed",
        action="store_false",
        help="take each edge in both directions (default: from source to target only)",
    )
    reading.add_argument("--dtype", choices=DTYPES, help="of the matrix (default: the file's, else float64)")
    reading.add_argument(
        "--weight", metavar="COLUMN", help="the title of the column of an edge list that holds the weights"
    )
    reading.add_argument(
        "--columns",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="the titles of the columns of an edge list that hold the vertices; with --no-header, columns (also of "
        "--weight) are numbered from 1",
    )
    reading.add_argument("--encoding", metavar="NAME", help="the encoding of a text file (default: utf-8)")
    reading.add_argument(
        "--decimal", choices=(".", ","), help="the mark of decimals in an edge list (default: a point)"
    )
    header = reading.add_mutually_exclusive_group()
    header.add_argument(
        "--header",
        action="store_true",
        default=None,
        help="the first line of an edge list holds the titles of the columns",
    )
    header.add_argument(
        "--no-header", dest="header", action="store_false", help="the first line of an edge list is an edge"
    )


def _add_work(parser: argparse.ArgumentParser, result_name: str, no_check_help: str) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"write the {result_name} ({', '.join(FORMATS)}; - for csv)"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg, .pdf); needs matplotlib")
    parser.add_argument("--threads", type=_parse_count, metavar="N", help="how many threads (default: all cores)")
    parser.add_argument(
        "--device",
        type=_parse_device,
        metavar="NAME",
        help="where to compute: cpu (the default), cuda, cuda:1, several GPUs as cuda:0,cuda:1, or cuda:* for all. A "
        "GPU that is not there is an error, and so is a method that does not run there",
    )
    parser.add_argument(
        "--no-check",
        dest="check",
        action="store_false",
        help=no_check_help,
    )


def _add_definition(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("a semiring of your own", "operations of x and y, such as 'max(0, x + y - 1)'")
    own.add_argument("--add", metavar="TEXT", help="⊕")
    own.add_argument("--mul", metavar="TEXT", help="⊗")
    own.add_argument("--zero", metavar="NUMBER", help="0̄, the neutral element of ⊕ (for -∞: --zero=-inf)")
    own.add_argument("--one", metavar="NUMBER", help="1̄, the neutral element of ⊗")
    own.add_argument("--star", metavar="TEXT", help="x* as an expression in x, nan where it does not exist")
    own.add_argument("--domain", metavar="INTERVAL", help="the elements, such as '[0, inf)' (default: all numbers)")


def _parse_device(text: str) -> str | tuple[str, ...] | None:
    """Return the value of ``device=`` for a text; None for the CPU, whose memory holds the arrays of the command."""
    if text == "cpu":
        return None
    names = tuple(text.split(","))
    if text != "cuda:*" and not all(re.fullmatch(r"cuda(:\d+)?", name) for name in names):
        raise argparse.ArgumentTypeError(f"{text} is not cpu, cuda, cuda:1, cuda:0,cuda:1 or cuda:*")
    if len(names) > 1 and ("cuda" in names or len(set(names)) < len(names)):
        raise argparse.ArgumentTypeError(f"{text} names a GPU twice or without its number: give cuda:0,cuda:1")
    return names if len(names) > 1 else text


def _parse_count(text: str) -> int:
    if not is_count(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads, 1 or more")
    return int(text)
