"""Keep compiled page templates on disk, as Python does with modules: compiling takes most of a second."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from live_eval.files import atomic_write, read_regular

__all__ = ["CompiledTemplates"]

_MOST_BYTES = 10_000_000
_DIGEST_BYTES = hashlib.sha256().digest_size


class CompiledTemplates(BytecodeCache):
    """Compiled templates in a ``__pycache__`` folder; a file that cannot be read or written is ignored.

    Args:
        templates: Folder of the templates.
    """

    def __init__(self, templates: Path) -> None:
        self._folder = templates / "__pycache__"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a compiled template, unless it is missing, damaged or outdated."""
        with suppress(OSError):
            content = read_regular(self._file(bucket), _MOST_BYTES)
            digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template."""
        if sys.dont_write_bytecode:
            return
        code = bucket.bytecode_to_string()
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            with atomic_write(self._file(bucket)) as part:
                part.write_bytes(hashlib.sha256(code).digest() + code)

    def _file(self, bucket: Bucket) -> Path:
        """Return the file of a template, for this version of Jinja and these options."""
        made_by = bucket.environment
        options = (jinja2.__version__, made_by.autoescape, made_by.trim_blocks, made_by.lstrip_blocks)
        name = hashlib.sha256(f"{bucket.key} {options}".encode()).hexdigest()
        return self._folder / f"{name}.{sys.implementation.cache_tag}.jinja"
