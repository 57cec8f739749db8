"""Full duplex: probes that overlap with the endpoint, their outcomes, and the metrics of the field."""
