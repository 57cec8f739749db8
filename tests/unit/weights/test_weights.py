"""Weights on this machine: search, records, hashes, and missing weights of judges."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.errors import JudgeError, UsageError
from live_eval.judging import JudgeKind, JudgeSpec, Need, OptionSpec, OutputSpec
from live_eval.registry import JUDGES, find_plugins, missing_requirements
from live_eval.weights import (
    FOLDER_VARIABLE,
    RECORD_FILE,
    WeightsFile,
    WeightsSpec,
    add_weights,
    chosen_weights,
    file_sha256,
    find_weights,
    hub_files,
    recorded_hashes,
    recorded_weights,
    weights_at,
    weights_folder,
    write_record,
)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ONE = WeightsSpec(
    name="one",
    title="of one file",
    files=(WeightsFile(name="one.pt", url="https://example.org/one.pt"),),
    licence="MIT",
    source="https://example.org",
    megabytes=1,
)
PINNED = replace(ONE, files=(replace(ONE.files[0], sha256=sha256(b"known")),))
SEVERAL = replace(
    ONE,
    name="several",
    files=tuple(
        WeightsFile(name=name, url=f"https://example.org/{name}")
        for name in ("config.json", "nested/model.bin")
    ),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))
    return tmp_path / "weights"


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def several(folder: Path) -> Path:
    written(folder / "config.json", b"{}")
    written(folder / "nested/model.bin", b"model")
    return folder


def test_the_folder_is_the_users_to_choose(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weights_folder() == folder
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert weights_folder().parts[-2:] == ("live-eval", "weights")


def test_missing_weights_are_reported_with_the_command() -> None:
    with pytest.raises(JudgeError, match=r"no weights one \(live-eval weights fetch one, or add one PATH\)"):
        find_weights(ONE)
    assert recorded_weights(ONE) is None
    assert recorded_hashes(ONE) == {}


def test_the_users_files_are_not_moved(tmp_path: Path, folder: Path) -> None:
    mine = written(tmp_path / "mine.pt", b"mine")
    found = add_weights(ONE, mine)
    assert found.path == mine
    assert found.sha256 == sha256(b"mine")
    assert find_weights(ONE) == recorded_weights(ONE) == found
    record = json.loads((folder / "one" / RECORD_FILE).read_text())
    assert record == {
        "files": {"one.pt": {"path": str(mine), "sha256": sha256(b"mine")}},
        "licence": "MIT",
        "source": "https://example.org",
    }


def test_a_folder_may_contain_the_only_file(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine/one.pt", b"mine")
    assert add_weights(ONE, mine.parent).path == mine
    assert weights_at(mine.parent, ONE).path == mine


def test_relative_paths_are_stored_as_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = written(tmp_path / "mine.pt", b"mine")
    monkeypatch.chdir(tmp_path)
    add_weights(ONE, Path("mine.pt"))
    monkeypatch.chdir("/")
    assert find_weights(ONE).path == mine


def test_several_files_are_found_as_one_folder(tmp_path: Path) -> None:
    mine = several(tmp_path / "mine")
    found = add_weights(SEVERAL, mine)
    assert found.path == mine
    assert found == weights_at(mine, SEVERAL) == recorded_weights(SEVERAL)
    (mine / "config.json").write_bytes(b"[]")
    assert weights_at(mine, SEVERAL).sha256 != found.sha256
    with pytest.raises(JudgeError, match=r"config\.json: expected the weights several with SHA-256"):
        find_weights(SEVERAL)


def test_a_folder_of_links_like_the_hubs_cache(tmp_path: Path) -> None:
    blobs = [written(tmp_path / "blobs/aa", b"{}"), written(tmp_path / "blobs/bb", b"model")]
    snapshot = tmp_path / "snapshots/1"
    (snapshot / "nested").mkdir(parents=True)
    (snapshot / "config.json").symlink_to(blobs[0])
    (snapshot / "nested/model.bin").symlink_to(blobs[1])
    assert add_weights(SEVERAL, snapshot).path == snapshot


def test_the_folder_can_be_moved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = written(folder / "one/one.pt", b"fetched")
    write_record(ONE, {"one.pt": inside})
    moved = folder.rename(folder.with_name("moved"))
    monkeypatch.setenv(FOLDER_VARIABLE, str(moved))
    assert find_weights(ONE).path == moved / "one/one.pt"


@pytest.mark.parametrize("spec", [ONE, SEVERAL], ids=lambda spec: str(spec.name))
@pytest.mark.parametrize("there", ["nothing", "an empty folder", "another file"])
def test_a_path_without_weights_is_refused(
    spec: WeightsSpec, there: str, tmp_path: Path, folder: Path
) -> None:
    path = tmp_path / "mine"
    if there == "an empty folder":
        path.mkdir()
    elif there == "another file":
        written(path / "other.pt", b"other")
    with pytest.raises(
        JudgeError, match=f"expected a f.* with the weights {spec.name} .*{spec.files[0].name}"
    ):
        add_weights(spec, path)
    assert not folder.exists()


def test_a_file_is_refused_for_several_weights_files(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="expected a folder with the weights several"):
        weights_at(written(tmp_path / "config.json", b"{}"), SEVERAL)


def test_a_known_hash_is_enforced(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.pt", b"other")
    for use in (add_weights, lambda spec, path: weights_at(path, spec)):
        with pytest.raises(JudgeError, match=f"SHA-256 {sha256(b'known')}, got {sha256(b'other')}"):
            use(PINNED, mine)
    mine.write_bytes(b"known")
    assert add_weights(PINNED, mine).sha256 == weights_at(mine, PINNED).sha256 == sha256(b"known")


def test_a_specified_hash_takes_precedence_over_the_recorded_one(tmp_path: Path) -> None:
    add_weights(ONE, written(tmp_path / "mine.pt", b"other"))
    with pytest.raises(JudgeError, match=sha256(b"known")):
        find_weights(PINNED)


def test_changed_content_is_detected(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.pt", b"mine")
    add_weights(ONE, mine)
    mine.write_bytes(b"changed since")
    with pytest.raises(JudgeError, match="expected the weights one with SHA-256"):
        find_weights(ONE)
    assert recorded_weights(ONE) is not None  # a look hashes nothing


def test_missing_files_are_reported(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.pt", b"mine")
    add_weights(ONE, mine)
    mine.unlink()
    for look in (find_weights, recorded_weights):
        with pytest.raises(
            JudgeError, match=r"mine\.pt: expected a file of the weights one.*weights fetch one"
        ):
            look(ONE)
    assert recorded_hashes(ONE) == {"one.pt": sha256(b"mine")}


@pytest.mark.parametrize(
    "record", ["", "{", "[]", "null", '{"files": []}', '{"files": {"one.pt": {}}}', '{"files": {}}', "\xff"]
)
def test_a_damaged_record_is_reported(record: str, folder: Path) -> None:
    written(folder / "one" / RECORD_FILE, record.encode("latin-1"))
    for look in (find_weights, recorded_weights):
        with pytest.raises(JudgeError, match="live-eval weights fetch one"):
            look(ONE)
    assert recorded_hashes(ONE) == {}


def test_files_in_different_folders_are_refused(tmp_path: Path) -> None:
    paths = {
        "config.json": written(tmp_path / "a/config.json", b"{}"),
        "nested/model.bin": written(tmp_path / "b/nested/model.bin", b"model"),
    }
    write_record(SEVERAL, paths)
    with pytest.raises(JudgeError, match="expected all files in one folder"):
        find_weights(SEVERAL)


def test_a_record_that_cannot_be_written(tmp_path: Path, folder: Path) -> None:
    written(folder, b"a file where the folder is to be")
    with pytest.raises(UsageError, match="cannot write"):
        add_weights(ONE, written(tmp_path / "mine.pt", b"mine"))


def test_the_users_folder_is_hashed_without_tool_files(tmp_path: Path) -> None:
    mine = several(tmp_path / "mine")
    found = weights_at(mine)
    assert found.path == mine
    written(mine / ".git/index", b"1")
    written(mine / ".cache/x.lock", b"2")
    assert weights_at(mine) == found
    written(mine / "more.txt", b"3")
    assert weights_at(mine).sha256 != found.sha256
    assert weights_at(mine / "more.txt").sha256 == sha256(b"3")


@pytest.mark.parametrize("kind", ["absent", "empty"])
def test_an_empty_folder_has_no_weights(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    if kind == "empty":
        path.mkdir()
    with pytest.raises(JudgeError, match=r"cannot read the weights at .*mine"):
        weights_at(path)


def test_a_file_that_changed_is_hashed_again(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.pt", b"mine")
    assert file_sha256(mine) == sha256(b"mine")
    mine.write_bytes(b"others")
    assert file_sha256(mine) == sha256(b"others")
    with pytest.raises(OSError, match="nowhere"):
        file_sha256(tmp_path / "nowhere")


# What a judge lacks.

JUDGE = JudgeSpec(
    name="toy",
    version="1",
    title="a toy",
    kind=JudgeKind.LOCAL,
    implementation="nowhere:Nothing",
    outputs=(OutputSpec(name="", title="a number"),),
    needs=frozenset({Need.REPLY_AUDIO}),
    options=(
        OptionSpec(name="model", help="which", default="packaged", weights=(ONE,)),
        OptionSpec(name="prompt", help="a file", is_file=True),
        OptionSpec(name="how", help="free", default="fast"),
    ),
)


def test_the_chosen_weights_of_a_judge_are_missing(tmp_path: Path) -> None:
    assert missing_requirements(JUDGE) is None
    assert missing_requirements(JUDGE, {"how": "slowly"}) is None
    assert missing_requirements(JUDGE, {"model": "one"}) == "weights one (live-eval weights fetch one)"
    absent, present = tmp_path / "absent", written(tmp_path / "present", b"x")
    assert (
        missing_requirements(JUDGE, {"model": str(absent)}) == f"weights at {absent} (model: one, or a path)"
    )
    assert missing_requirements(JUDGE, {"prompt": str(absent)}) == f"file {absent} (prompt)"
    assert missing_requirements(JUDGE, {"model": str(present), "prompt": str(present)}) is None
    both = missing_requirements(JUDGE, {"model": "one", "prompt": str(absent)})
    assert both == f"weights one (live-eval weights fetch one); file {absent} (prompt)"
    add_weights(ONE, present)
    assert missing_requirements(JUDGE, {"model": "one"}) is None
    present.unlink()
    assert "expected a file of the weights one" in (missing_requirements(JUDGE, {"model": "one"}) or "")


def test_the_weights_of_a_judges_default_are_missing() -> None:
    option = OptionSpec(name="weights", help="which", default="one", weights=(ONE,))
    assert (
        missing_requirements(replace(JUDGE, options=(option,))) == "weights one (live-eval weights fetch one)"
    )


def test_the_weights_of_installed_judges_are_complete() -> None:
    known: dict[str, WeightsSpec] = {}
    for plugin in find_plugins(JUDGES):
        assert isinstance(plugin.spec, JudgeSpec), plugin.problem
        for weights in (weights for option in plugin.spec.options for weights in option.weights):
            assert known.setdefault(weights.name, weights) == weights
    assert "nisqa" in known
    for weights in known.values():
        names = [file.name for file in weights.files]
        assert weights.licence
        assert weights.source.startswith("https://")
        assert weights.megabytes > 0
        assert len(set(names)) == len(names) > 0
        for name in (weights.name, *names):
            assert not name.startswith("/")
            assert ".." not in Path(name).parts
        assert all(file.url.startswith("https://") for file in weights.files)


def test_the_name_of_a_judge_leads_to_its_weights() -> None:
    done = CliRunner().invoke(cli, ["weights", "fetch", "utmos"])
    assert isinstance(done.exception, UsageError)
    assert "'utmos' is a judge, not weights; it uses: utmos22-strong" in str(done.exception)


def test_an_option_selects_weights_by_name_or_path(tmp_path: Path) -> None:
    (tmp_path / "one.pt").write_bytes(b"known")
    (tmp_path / "other.pt").write_bytes(b"other")
    added = add_weights(PINNED, tmp_path / "one.pt")
    assert chosen_weights("one", PINNED) == added
    with pytest.raises(JudgeError, match="expected the weights one with SHA-256"):
        chosen_weights(str(tmp_path / "other.pt"), PINNED)
    other = chosen_weights(str(tmp_path / "other.pt"), PINNED, any_hash=True)
    assert (other.path, other.sha256) == (tmp_path / "other.pt", sha256(b"other"))


def test_files_of_the_hub_are_those_of_a_revision() -> None:
    [known] = hub_files("a/b", "c0ffee", {"m.pt": "0" * 64})
    assert known == WeightsFile(
        name="m.pt", url="https://huggingface.co/a/b/resolve/c0ffee/m.pt", sha256="0" * 64
    )
    assert [file.sha256 for file in hub_files("a/b", "c0ffee", ("m.pt", "n.json"))] == [None, None]
