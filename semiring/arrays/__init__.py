"""Read operands of any library as arrays, scan their entries, and convert them to the encoding of the kernels."""
