"""Name the files that reports write to run and campaign folders."""

from __future__ import annotations

import re

from live_eval.recording.contents import FolderForms

__all__ = ["CAMPAIGN_PAGE", "DUPLEX_PAGE", "RUN_PAGE", "SOUNDS", "SOUND_FORMS"]

RUN_PAGE = "report.html"
CAMPAIGN_PAGE = "latency.html"
DUPLEX_PAGE = "duplex.html"
SOUNDS = "sounds"
"""Name of the folder for trial audio inside a duplex campaign folder."""
SOUND_FORMS = FolderForms(re.compile(r"[a-z0-9-]*\.(both|user|endpoint)\.flac(\.part)?"))
