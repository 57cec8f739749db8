"""The latency profiler: campaigns of runs against one endpoint, their figures, and assertions about them.

`points` says what a campaign plays and `campaign` plays it, each point an ordinary run; `arrivals` says when
sessions begin; `inputs` makes the recordings that a sweep or the sentinel needs; `watch` notices what this
machine cannot hold.
"""
