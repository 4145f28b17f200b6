"""The algorithms: every method of closure, one in a file, and the searches for potentials and predecessors."""
