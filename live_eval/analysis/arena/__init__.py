"""Compare runs in pairs: a judge or people decide which of two replies to the same case is better."""
