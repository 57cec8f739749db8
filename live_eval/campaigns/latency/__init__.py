"""Latency campaigns: runs under controlled load against one endpoint, their metrics, and assertions.

`points` defines the conditions, and `campaign` runs each as an ordinary run; `arrivals` schedules sessions;
`inputs` generates recordings for a sweep or the drift check; `watch` detects a load that this machine cannot
sustain.
"""
