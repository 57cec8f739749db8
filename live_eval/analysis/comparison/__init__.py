"""Compare runs that are paired by case, averaged within scripts, and tested over scripts.

Every metric covers the common turns. Turns without a value in either run are counted separately.
"""
