"""Full-duplex tests: probes that overlap with the endpoint's speech, their outcomes, published metrics."""
