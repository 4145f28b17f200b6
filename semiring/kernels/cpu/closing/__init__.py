"""The closure of one block: the loops over its pivots, and the native elimination that they call."""
