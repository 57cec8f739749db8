"""Latency campaigns: runs under controlled load against one endpoint, their metrics, and assertions.

`points` defines the conditions and `campaign` runs them, each as an ordinary run; `arrivals` decides when
sessions begin; `inputs` makes recordings for a sweep or the drift check; `watch` detects a load that this
machine cannot sustain.
"""
