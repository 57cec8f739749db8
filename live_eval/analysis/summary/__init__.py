"""The metrics of a run, as ``show`` and the report print them and scripts read them.

Nothing is silently averaged over survivors. For every latency, the measured turns, the turns whose end of
speech is uncertain (with percentiles of their own) and the turns without it, by reason, add up to the turns
of the run; for every score, ``n + n_unscored + n_failed`` does. A failed turn has neither latency nor score
and counts in both sums.
"""
