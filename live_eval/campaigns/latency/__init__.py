"""Measure the latency of one endpoint under controlled load.

`points` defines the conditions, and `campaign` runs each as an ordinary run; `arrivals` schedules sessions;
`inputs` generates recordings for a sweep or the drift check; `watch` detects a load that this machine cannot
sustain.
"""
