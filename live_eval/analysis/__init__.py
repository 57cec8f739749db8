"""Analyses of recorded turns and their scores: statistics, comparisons, audits."""
