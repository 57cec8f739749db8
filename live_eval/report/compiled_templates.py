"""Keep compiled page templates on disk, as Python does with modules: compiling takes most of a second."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

__all__ = ["CompiledTemplates"]


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates in a ``__pycache__`` folder, which need not be writable.

    Args:
        templates: Folder of the templates.
    """

    def __init__(self, templates: Path) -> None:
        made_by = f"jinja-{jinja2.__version__}.{sys.implementation.cache_tag}"
        super().__init__(str(templates / "__pycache__"), f"%s.{made_by}")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template, unless Python writes none."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
