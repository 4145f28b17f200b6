"""Packed boolean matrices: the operations, the loops that they call, and the instructions in the loops."""
