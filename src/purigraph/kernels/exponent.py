"""Keeping exponentials in range."""

#: exp of this is finite in single precision, with room to multiply.
LARGEST_EXPONENT = 60.0
