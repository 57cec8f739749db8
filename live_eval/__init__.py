"""Hold spoken conversations with realtime speech language models, time them, and score what came back."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("live-eval")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"
