"""Blind listening tests: preference between two replies (A/B), identification (ABX), and ratings from 1 to 5.

Each test is a file next to its runs, ``recordings/listening/NAME.jsonl``. The first line is the plan; every
other line is a vote, which is written to disk before it is acknowledged. `live_eval.studio.listen` serves the
tests.
"""
