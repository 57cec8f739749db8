"""The flags that the pytest plugin adds, for the tests of the documentation."""

import re
from pathlib import Path

from live_eval.pytest_plugin import plugin


def plugin_flags() -> set[str]:
    """Return the flags in the plugin's source: pytest registers them only when it starts."""
    return set(re.findall(r'"(--live-eval-[a-z-]+)"', Path(plugin.__file__).read_text("utf-8")))
