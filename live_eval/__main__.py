"""``python -m live_eval`` is ``live-eval``."""

from live_eval.cli import main

main()
