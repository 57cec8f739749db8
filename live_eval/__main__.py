"""Run ``live-eval`` as ``python -m live_eval``."""

from live_eval.cli import main

main()
