"""Read and write the JSON documents of campaigns, each in the campaign folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ValidationError

from live_eval.analysis.assertions import Assertion
from live_eval.errors import StoreError, UsageError
from live_eval.files import atomic_text, read_regular
from live_eval.recording import is_own_file, own_name
from live_eval.recording.contents import FolderForms, holds_only
from live_eval.recording.schema import RUN_FILE
from live_eval.redaction import SECRETS

__all__ = ["DUPLEX_CAMPAIGN", "LATENCY_CAMPAIGN", "CampaignDocument", "names_a_run"]

_MOST_BYTES = 1 << 26


class _SharedFacts(BaseModel, strict=True):
    endpoint: str | None = None
    created: str | None = None
    notes: list[str] | None = None
    asserts: list[str] | None = None


@dataclass(frozen=True, slots=True)
class CampaignDocument:
    """The document of one kind of campaign, and the other files that such a campaign writes.

    Args:
        what: Description of the folder's contents, for messages.
        made: Folder of the generated recordings.
        forms: Patterns of the paths in `made`.
        others: Names of other files in the campaign folder.
    """

    file_name: str
    schema: int
    kind: Literal["campaign", "duplex"]
    what: str
    made: str
    forms: FolderForms
    others: tuple[str, ...] = ()

    def was_begun_in(self, folder: Path) -> bool:
        """Return whether a folder contains a campaign that was killed before writing its document.

        Raises:
            OSError: The folder cannot be read.
        """
        made = folder / self.made
        if not holds_only(made, self.forms):
            return False
        return any(made.rglob("*.*")) or [each.name for each in folder.iterdir()] == [self.made]

    def is_in(self, folder: Path) -> bool:
        """Return whether a folder contains such a campaign and is not a run itself."""
        return is_own_file(folder, folder / self.file_name) and not (folder / RUN_FILE).exists()

    def read(self, folder: Path) -> dict[str, Any]:
        """Return the document's content.

        Raises:
            StoreError: The folder contains no such campaign, or the document is damaged or has another schema
                version.
        """
        path = folder / self.file_name
        try:
            facts = orjson.loads(read_regular(path, _MOST_BYTES))  # rejects NaN and lone surrogates
        except OSError as error:
            raise StoreError(
                f"{folder} is not a {self.what}: cannot read {path.name}: {error.strerror}"
            ) from None
        except ValueError as error:
            raise StoreError(f"{path}: expected JSON: {error}") from None
        if not isinstance(facts, dict) or facts.get("schema") != self.schema:
            found = facts.get("schema") if isinstance(facts, dict) else type(facts).__name__
            raise StoreError(
                f"{path}: expected a {self.what} with schema version {self.schema}, got {found!r}"
            )
        self.check(path, facts, _SharedFacts)
        return facts

    @staticmethod
    def check(path: Path, facts: Mapping[str, Any], form: type[BaseModel]) -> None:
        """Check that a document's fields have the expected types.

        Raises:
            StoreError: A field has another type; the message contains the field's name.
        """
        try:
            form.model_validate(facts)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise StoreError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @staticmethod
    def assertions(
        folder: Path, facts: Mapping[str, Any], parse: Callable[[str], Assertion]
    ) -> list[Assertion]:
        """Return the assertions in a document.

        Raises:
            StoreError: `parse` rejects one.
        """
        try:
            return [parse(text) for text in facts.get("asserts") or ()]
        except UsageError as error:
            raise StoreError(f"{folder}: {error}") from None

    def write(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Write the document without secrets, the schema version first.

        Raises:
            StoreError: The document cannot be written.
        """
        path = folder / self.file_name
        document = {"schema": self.schema, **facts}
        try:
            with atomic_text(path) as file:
                file.write(json.dumps(SECRETS.values(document), indent=2) + "\n")
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from None


LATENCY_CAMPAIGN = CampaignDocument(
    "campaign.json",
    1,
    "campaign",
    "campaign",
    made="inputs",
    forms=FolderForms(
        re.compile(r"(sentinel/sentinel|[0-9.]+s/input-[0-9]+)\.flac(\.part)?"),
        re.compile(r"(sentinel|[0-9.]+s)/manifest\.jsonl(\.part)?"),
    ),
    others=("words.json",),
)
DUPLEX_CAMPAIGN = CampaignDocument(
    "duplex.json",
    1,
    "duplex",
    "duplex campaign",
    made="stimuli",
    forms=FolderForms(
        re.compile(r"[a-z-]+-[0-9a-f]{8}\.flac(\.part)?|own-[0-9a-f]{8}-[^/]+"),
        re.compile(r"manifest\.jsonl(\.part)?"),
    ),
)


def names_a_run(name: object) -> bool:
    """Return whether a value is a plain folder name, not a path that could leave the campaign folder."""
    try:
        return isinstance(name, str) and bool(own_name(name))
    except ValueError:
        return False
