"""The graph of a matrix: its components and what else of it spares work, found by looks that cost next to nothing."""
