"""Compare runs: paired by case, averaged within scripts, tested over scripts.

Every metric covers the common turns; turns without a value in one of the runs are counted separately.
"""
