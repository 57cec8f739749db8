"""The latency profiler: campaigns of runs against one endpoint, their figures, and assertions about them."""
