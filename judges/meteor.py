"""Compute METEOR between the reply and the reference reply: words, stems and synonyms, 0 to 100.

Source: Banerjee and Lavie, "METEOR" (ACL Workshop 2005), computed by nltk. Synonyms are from WordNet, which
nltk does not include: `live_eval.judges.text._wordnet` finds a local copy, without downloads.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nltk
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.translate.meteor_score import single_meteor_score

from live_eval.errors import JudgeError
from live_eval.judges.text._reply import incomparable, reply_and_reference
from live_eval.judges.text._wordnet import HOW_TO_GET_IT, find_wordnet
from live_eval.judging import JudgedTurn, Judgement, Scored

__all__ = ["Meteor"]

# WordNet's file categories (lexnames(5WN)), which Debian's packages omit.
_CATEGORIES = (
    *("adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact"),
    *("noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event", "noun.feeling"),
    *("noun.food", "noun.group", "noun.location", "noun.motive", "noun.object", "noun.person"),
    *("noun.phenomenon", "noun.plant", "noun.possession", "noun.process", "noun.quantity", "noun.relation"),
    *("noun.shape", "noun.state", "noun.substance", "noun.time", "verb.body", "verb.change"),
    *("verb.cognition", "verb.communication", "verb.competition", "verb.consumption", "verb.contact"),
    *("verb.creation", "verb.emotion", "verb.motion", "verb.perception", "verb.possession", "verb.social"),
    *("verb.stative", "verb.weather", "adj.ppl"),
)
_PARTS_OF_SPEECH = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


class Meteor:
    """METEOR, times 100, higher is better.

    As in EchoMind, both texts are lower-cased and split at white space, so punctuation remains attached to
    words. The weights are nltk's (alpha 0.9, beta 3, gamma 0.5), with Porter stems and WordNet's synonyms.

    Args:
        wordnet: Folder with WordNet's files; empty to search for it.

    Raises:
        JudgeError: WordNet is missing; the message describes how to get it.
    """

    def __init__(self, *, wordnet: str = "") -> None:
        path = find_wordnet(wordnet)
        if path.suffix == ".zip" or _has_carriage_returns(path):
            copy = Path(tempfile.mkdtemp(prefix="wordnet-"))
            weakref.finalize(self, shutil.rmtree, copy, ignore_errors=True)
            path = _plain_copy(path, copy)
        self.wordnet = _open_wordnet(path)
        self._release = self.wordnet.get_version()
        weakref.finalize(self, self.wordnet.close)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply."""
        return [incomparable(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        reply, reference = (text.lower().split() for text in reply_and_reference(turn))
        meteor = single_meteor_score(reference, reply, wordnet=self.wordnet)
        return Scored(
            {"": 100.0 * float(meteor)},
            {"reply_words": len(reply), "reference_words": len(reference), "wordnet": self._release},
        )


def _open_wordnet(folder: Path) -> Any:
    """Load WordNet, which takes a few seconds and 200 MB of memory."""
    # nltk reads only from registered folders.
    if str(folder.parent) not in nltk.data.path:
        nltk.data.path.append(str(folder.parent))
    try:
        return _Reader(str(folder))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise JudgeError(f"{folder}: cannot read the WordNet files: {problem}. {HOW_TO_GET_IT}") from error


def _has_carriage_returns(folder: Path) -> bool:
    """Return whether line ends were converted to CRLF, which invalidates WordNet's offsets."""
    with (folder / "data.noun").open("rb") as file:
        return file.readline().endswith(b"\r\n")


def _plain_copy(path: Path, folder: Path) -> Path:
    """Extract an archive (nltk leaves archives open), or restore a folder's files to their published form."""
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
            return find_wordnet(str(folder))
        for file in path.iterdir():
            (folder / file.name).write_bytes(file.read_bytes().replace(b"\r\n", b"\n"))
    except (OSError, zipfile.BadZipFile) as error:
        raise JudgeError(f"{path}: cannot read the WordNet files: {error}. {HOW_TO_GET_IT}") from error
    return folder


class _Reader(WordNetCorpusReader):  # type: ignore[misc]  # nltk has no types
    """Read English WordNet files, even if the category list is missing."""

    def __init__(self, root: str) -> None:
        super().__init__(root, _NoOtherLanguages())

    def open(self, file: str) -> Any:
        try:
            return super().open(file)
        except OSError:
            if file != "lexnames":
                raise
            return io.StringIO("".join(_categories()))

    def close(self) -> None:
        """Close the files that lookups left open."""
        for file in self._data_file_map.values():
            file.close()

    def map_wn(self, version: str = "wordnet") -> None:
        """Do nothing: the mapping between WordNet versions is needed only for other languages."""


class _NoOtherLanguages:
    """Disable WordNet's translations, since nltk warns if they are missing."""

    def fileids(self) -> list[str]:
        return []


def _categories() -> Iterator[str]:
    for number, name in enumerate(_CATEGORIES):
        yield f"{number:02}\t{name}\t{_PARTS_OF_SPEECH[name.partition('.')[0]]}\n"
