"""Compare runs: paired by case, averaged within scripts, tested over scripts.

For every metric, the denominator is the common turns; turns without a value in either run are counted with
the pairs.
"""
