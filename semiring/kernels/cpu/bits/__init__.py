"""Packed boolean matrices: their operations, the loops that these call, and the instructions in the loops."""
