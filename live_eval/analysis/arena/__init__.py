"""Compare runs in pairs: a judge or human raters choose the better of two replies to the same case."""
