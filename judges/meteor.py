"""METEOR of the reply's text against the reference reply: words, stems and synonyms, 0 to 100.

Source: Banerjee and Lavie, "METEOR" (ACL Workshop 2005), as nltk computes it. Synonyms are WordNet's, which
nltk does not carry. It is looked for where the user says, where ``live-eval weights fetch wordnet`` put it,
in nltk's own data folders, and where Debian's package ``wordnet-base`` puts it, and never downloaded here.
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

from judges._reply import incomparable
from judges.specs.text import WORDNET
from live_eval.errors import JudgeError
from live_eval.judging import JudgedTurn, Judgement, Scored
from live_eval.weights import find_weights, recorded_weights

__all__ = ["DEBIAN_FOLDER", "Meteor", "find_wordnet", "open_wordnet"]

DEBIAN_FOLDER = Path("/usr/share/wordnet")

_HELP = (
    "METEOR needs WordNet: live-eval weights fetch wordnet; or on Debian apt-get install wordnet-base; or "
    "--set meteor.wordnet=FOLDER with its files (index.noun, data.noun, …)"
)
# The categories of WordNet's files (lexnames(5WN)), which Debian's packages leave out.
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

    As EchoMind describes it: both texts lower-cased and cut at white space, so that punctuation stays with
    its word; nltk's weights (alpha 0.9, beta 3, gamma 0.5), Porter stems, WordNet's synonyms.

    Args:
        wordnet: A folder with WordNet's files; empty to look for it.

    Raises:
        JudgeError: There is no WordNet; says how to come by one.
    """

    def __init__(self, *, wordnet: str = "") -> None:
        path = find_wordnet(wordnet)
        if path.suffix == ".zip":  # nltk reads archives too, but leaves them open
            unpacked = tempfile.mkdtemp(prefix="wordnet-")
            weakref.finalize(self, shutil.rmtree, unpacked, ignore_errors=True)
            try:
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(unpacked)
            except (OSError, zipfile.BadZipFile) as error:
                raise JudgeError(f"{path}: expected WordNet's files: {error}. {_HELP}") from error
            path = find_wordnet(unpacked)
        self._wordnet = open_wordnet(path)
        self._release = self._wordnet.get_version()
        weakref.finalize(self, self._wordnet.close)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply."""
        return [incomparable(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        reply = (turn.reply_text or "").lower().split()
        reference = (turn.case.reference_text or "").lower().split()
        meteor = single_meteor_score(reference, reply, wordnet=self._wordnet)
        return Scored(
            {"": 100.0 * float(meteor)},
            {"reply_words": len(reply), "reference_words": len(reference), "wordnet": self._release},
        )


def find_wordnet(chosen: str) -> Path:
    """Return the folder of WordNet's files, or the zip file that has them.

    Args:
        chosen: The user's folder; empty to look for one.

    Raises:
        JudgeError: There is none; says where it may come from.
    """
    for place in [Path(chosen)] if chosen else _places():
        for folder in (place, place / "wordnet"):
            if (folder / "index.noun").is_file() and (folder / "data.noun").is_file():
                return folder
        if place.suffix == ".zip" and place.is_file():
            return place
    raise JudgeError(f"{chosen}: expected WordNet's files. {_HELP}" if chosen else _HELP)


def open_wordnet(folder: Path) -> Any:
    """Return a reader of WordNet's files, which takes some seconds and 200 MB.

    Raises:
        JudgeError: They are not what they should be.
    """
    # nltk reads only below folders that are registered with it.
    if str(folder.parent) not in nltk.data.path:
        nltk.data.path.append(str(folder.parent))
    try:
        return _Reader(str(folder))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise JudgeError(f"{folder}: expected WordNet's files: {problem}. {_HELP}") from error


class _Reader(WordNetCorpusReader):  # type: ignore[misc]  # nltk has no types
    """WordNet in English alone, from files that may lack the list of categories."""

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
        """Leave out the map to other versions, which only other languages need."""


class _NoOtherLanguages:
    """Stands where WordNet's translations would, without nltk's warning that there are none."""

    def fileids(self) -> list[str]:
        return []


def _categories() -> Iterator[str]:
    for number, name in enumerate(_CATEGORIES):
        yield f"{number:02}\t{name}\t{_PARTS_OF_SPEECH[name.partition('.')[0]]}\n"


def _places() -> Iterator[Path]:
    if recorded_weights(WORDNET) is not None:
        yield find_weights(WORDNET).path
    for folder in nltk.data.path:
        yield Path(folder) / "corpora" / "wordnet"
        yield Path(folder) / "corpora" / "wordnet.zip"
    yield DEBIAN_FOLDER
