"""The metrics of a run, for ``show``, reports and scripts.

Failed turns are always counted. For every latency, three numbers add up to the number of turns in the run:
measured turns, turns with an uncertain end of speech (which have separate percentiles), and turns without
this latency, by reason. For every score, ``n + n_unscored + n_failed`` is the number of turns. A failed turn
has no latency and no score, and counts in both sums.
"""
