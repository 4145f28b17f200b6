"""Check the message of a commit: ``area: imperative``, at most 60 characters, and the reason in the body.

    python -m tools.commit_message FILE      print the faults of the message in a file (then the exit code is 1)

Git passes the file to the hook ``commit-msg``, which `.pre-commit-config.yaml` configures.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 60  # characters of a subject

#: Subjects that Git writes itself. They need no area and no body.
_OF_GIT = re.compile(r"(Merge|Revert|fixup!|squash!|amend!) ")

#: First words that are no imperatives: participles, gerunds and other persons, except verbs with such endings.
_NO_IMPERATIVE = re.compile(
    r"(?!(?:bleed|breed|bring|cling|embed|exceed|feed|fling|heed|need|ping|proceed|ring|seed|shed|sing|shred|speed|"
    r"spring|sting|string|succeed|swing|weed|wed|wring)\b)\w+(?:ed|ing)\b|"
    r"(?:adds|changes|fixes|makes|moves|removes|renames|replaces|says|takes|updates|uses)\b",
    re.IGNORECASE,
)


def faults(message: str) -> Iterator[str]:
    """Yield what is wrong with a commit message, comments of Git excepted."""
    text = message.partition("# ------------------------ >8 ------------------------")[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    subject, *rest = "\n".join(lines).strip("\n").split("\n")
    if _OF_GIT.match(subject):
        return
    if len(subject) > LONGEST:
        yield f"the subject has {len(subject)} characters: use at most {LONGEST}"
    matched = re.fullmatch(r"[a-z0-9][\w.,/ -]*: (\S.*)", subject)
    if matched is None:
        yield "the subject is not of the form 'area: imperative', such as 'docs: describe the planner'"
    else:
        if _NO_IMPERATIVE.match(matched[1]):
            yield f"{matched[1].split()[0]!r} is no imperative: write 'add', not 'added' or 'adds'"
        if matched[1].endswith("."):
            yield "the subject ends with a full stop: leave it out"
    if rest and rest[0]:
        yield "the second line is not blank: separate the subject from the body"
    if not any(rest):
        yield "the body is empty: write the reason for the change after a blank line"


def main(arguments: list[str]) -> int:
    """Print what is wrong with the message in the file that is named, and return the exit code."""
    (path,) = arguments
    found = list(faults(Path(path).read_text("utf-8")))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
