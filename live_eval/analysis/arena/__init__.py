"""Compare runs in pairs, based on which of two replies to the same case a judge or human rater prefers."""
