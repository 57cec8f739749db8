"""METEOR compared with nltk's own function, and the search for WordNet."""

import zipfile
from dataclasses import replace
from pathlib import Path

import nltk
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.translate.meteor_score import single_meteor_score

from live_eval.errors import JudgeError
from live_eval.judges import meteor
from live_eval.judges.meteor import Meteor
from live_eval.judges.specs import METEOR
from live_eval.judges.specs.text import WORDNET
from live_eval.judges.text import _wordnet
from live_eval.judges.text._wordnet import find_wordnet
from live_eval.judging import JudgedTurn, Scored, Unscored
from live_eval.registry import missing_requirements
from live_eval.testing.judges import ordinary_turn
from live_eval.weights import FOLDER_VARIABLE, add_weights, weights_at

# A small WordNet: two synonymous nouns, with correct offsets.
INDEX_NOUN = "car n 1 0 1 1 00000008  \nauto n 1 0 1 1 00000008  \n"
DATA_NOUN = "  1 so \n00000008 06 n 02 car 0 auto 0 000 | it drives  \n"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without WordNet."""
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(_wordnet, "DEBIAN_FOLDER", tmp_path / "debian")
    monkeypatch.setattr(_wordnet, "PACKAGE", "no_such_package_anywhere")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))


def small_wordnet(folder: Path) -> Path:
    """Write the files with Debian's layout: without lexnames."""
    folder.mkdir(parents=True)
    for part in ("noun", "verb", "adj", "adv"):
        (folder / f"index.{part}").write_text(INDEX_NOUN if part == "noun" else "")
        (folder / f"data.{part}").write_text(DATA_NOUN if part == "noun" else "")
        (folder / f"{part}.exc").write_text("")
    return folder


def turn(reply: str, reference: str) -> JudgedTurn:
    made = ordinary_turn()
    return replace(made, reply_text=reply, case=replace(made.case, reference_text=reference))


def test_synonyms_count_and_the_number_is_nltks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_wordnet(tmp_path / "wn")
    judge = Meteor(wordnet=str(folder))
    pairs = [
        ("take the auto to work", "take the car to work"),
        ("I like walking to work", "He walks to work"),
        ("Take care!", "take CARE!"),
        ("no word of it", "something else"),
    ]
    [typed], [printed] = (judge.score([turn(text, "It's a car.")]) for text in ("It's a car.", "It’s a car."))
    assert typed == printed
    (folder / "lexnames").write_text("".join(meteor._categories()))
    monkeypatch.setattr(WordNetCorpusReader, "map_wn", lambda _: None)  # requires nltk's own WordNet
    with pytest.warns(UserWarning, match="multilingual"):
        theirs = WordNetCorpusReader(nltk.data.FileSystemPathPointer(str(folder)), None)
    for (reply, reference), judgement in zip(
        pairs, judge.score([turn(*pair) for pair in pairs]), strict=True
    ):
        expected = single_meteor_score(reference.lower().split(), reply.lower().split(), wordnet=theirs)
        assert isinstance(judgement, Scored)
        assert judgement.values[""] == pytest.approx(100 * expected, abs=1e-9)
    for file in theirs._data_file_map.values():  # nltk leaves them open
        file.close()
    same, _, _, other = (judgement.values[""] for judgement in judge.score([turn(*p) for p in pairs]))  # type: ignore[union-attr]  # all are scored
    assert same > 99
    assert other == 0


@pytest.mark.parametrize("which", ["debian", "nltk", "chosen", "zip", "fetched", "packaged"])
def test_wordnet_is_found(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ""
    if which == "debian":
        small_wordnet(tmp_path / "debian")
    elif which == "nltk":
        small_wordnet(tmp_path / "nltk" / "corpora" / "wordnet")
        monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk")])
    elif which == "chosen":
        chosen = str(small_wordnet(tmp_path / "mine" / "wordnet").parent)
    elif which == "packaged":
        folder = small_wordnet(tmp_path / "site" / "small_wn" / "data" / "wordnet-3.0")
        for file in folder.iterdir():  # as in the package
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        (tmp_path / "site" / "small_wn" / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.setattr(_wordnet, "PACKAGE", "small_wn")
        monkeypatch.setattr(_wordnet, "_PACKAGE_SHA256", weights_at(folder).sha256)
    else:
        folder = small_wordnet(tmp_path / "files")
        file = tmp_path / "nltk" / "corpora" / "wordnet.zip"
        file.parent.mkdir(parents=True)
        with zipfile.ZipFile(file, "w") as archive:
            for each in folder.iterdir():
                archive.write(each, f"wordnet/{each.name}")
        if which == "zip":
            monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk")])
        else:
            ours = replace(WORDNET, files=(replace(WORDNET.files[0], sha256=None),))
            monkeypatch.setattr(_wordnet, "WORDNET", ours)
            add_weights(ours, file)
    assert missing_requirements(METEOR, {"wordnet": chosen}) is None
    judgement = Meteor(wordnet=chosen).score([turn("the auto", "the car")])[0]
    assert isinstance(judgement, Scored)
    assert judgement.values[""] > 90


def test_without_wordnet_it_says_how_to_come_by_it(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"live-eval weights fetch wordnet.*apt-get install wordnet-base"):
        Meteor()
    assert "live-eval weights fetch wordnet" in (missing_requirements(METEOR) or "")
    (tmp_path / "empty").mkdir()
    assert "WordNet at " in (missing_requirements(METEOR, {"wordnet": str(tmp_path / "empty")}) or "")
    with pytest.raises(JudgeError, match=r"gone: expected a folder with the WordNet files"):
        find_wordnet(str(tmp_path / "gone"))
    broken = small_wordnet(tmp_path / "broken")
    (broken / "data.adj").unlink()
    with pytest.raises(JudgeError, match="cannot read the WordNet files"):
        Meteor(wordnet=str(broken))
    (tmp_path / "wordnet.zip").write_bytes(b"no archive")
    with pytest.raises(JudgeError, match=r"\.zip: cannot read the WordNet files: File is not a zip file"):
        Meteor(wordnet=str(tmp_path / "wordnet.zip"))


def test_another_release_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_wordnet(tmp_path / "small_wn" / "data" / "wordnet-3.0")
    (tmp_path / "small_wn" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_wordnet, "PACKAGE", "small_wn")
    with pytest.raises(JudgeError, match="expected WordNet with SHA-256"):
        Meteor()


def test_an_unrateable_reply_is_unscored(tmp_path: Path) -> None:
    judge = Meteor(wordnet=str(small_wordnet(tmp_path / "wn")))
    refusal, bare = judge.score([turn("I'm sorry, I can't help with that.", "x"), turn("Hello you.", " ")])
    assert refusal == Unscored("the reply is a refusal")
    assert bare == Unscored("the reference reply has no words")
