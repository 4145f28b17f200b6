"""Products: the micro-kernel of one tile, the loops around it, products with vectors, and witnesses."""
