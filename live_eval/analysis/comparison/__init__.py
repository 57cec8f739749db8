"""Compare runs: paired by case, averaged within scripts, tested over scripts.

For every metric, the denominator is the turns that both runs have; those without a value in either run are
counted along with the pairs.
"""
