"""The metrics of a run, for ``show``, reports and scripts.

Nothing is silently averaged over survivors. For every latency, the measured turns, the turns with an
uncertain end of speech (which have separate percentiles) and the turns without this latency, by reason, add
up to the number of turns in the run; for every score, ``n + n_unscored + n_failed`` does. A failed turn has
neither a latency nor a score and is included in both sums.
"""
