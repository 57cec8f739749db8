"""Neural networks used by judges."""
