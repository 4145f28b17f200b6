"""``python -m semiring`` is the command ``semiring``."""

import sys

from semiring.cli import main

if __name__ == "__main__":
    sys.exit(main())
