"""Compute the metrics of a run for ``show``, reports and scripts.

For every latency, three counts add up to the number of turns in the run: measured turns, turns with an
uncertain end of speech (with separate percentiles), and turns without this latency, by reason. For every
score, ``n + n_unscored + n_failed`` is the number of turns. Failed turns, which have neither latencies nor
scores, are included in both sums.
"""
