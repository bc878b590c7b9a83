"""Keeping exponentials in range."""

#: The exponential of this is finite in single precision, with headroom for products.
LARGEST_EXPONENT = 60.0
