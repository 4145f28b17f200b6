"""Find the loop in which a kernel spends its time, in a listing of its code."""

from __future__ import annotations

import re

__all__ = ["steady_loop"]

_LABEL = re.compile(r'\s*"?([.$\w]+)"?:')
_BRANCH = re.compile(  # an address and a condition come before the instruction in the listings of GPUs
    r"\s*(?:/\*\w+\*/\s*)?(?:@\S+\s+)?(?:br|bra[.\w]*|BRA[.\w]*|j\w+|b|b\.\w+|cbn?z|tbn?z)\s"
)


def steady_loop(text: str) -> str:
    """Return the lines of a listing in which a kernel spends its time: the longest loop that contains no other.

    Listings are those of LLVM, of assemblers, of PTX and of SASS. A listing without a loop is returned whole.
    """
    lines = text.splitlines()
    labels = {match[1]: number for number, line in enumerate(lines) if (match := _LABEL.match(line))}
    loops = []
    for end, line in enumerate(lines):
        if _BRANCH.match(line):
            starts = [labels[word] for word in re.findall(r"[.$\w]+", line) if labels.get(word, end) < end]
            loops += [(start, end) for start in starts]
    inner = [(a, b) for a, b in loops if not any(a <= c and d < b for c, d in loops if (c, d) != (a, b))]
    start, end = max(inner, key=lambda loop: loop[1] - loop[0], default=(0, len(lines)))
    return "\n".join(lines[start : end + 1])
