"""Downloads of benchmarks: refused, resumed, repeated, offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import live_eval.cli._data_command  # noqa: F401  # imported before a test replaces BENCHMARKS
from live_eval.cli.data import command
from live_eval.clock import SystemClock
from live_eval.data import load, locate
from live_eval.data.benchmarks import BENCHMARKS, FOLDER_VARIABLE, BenchmarkSpec, read_record
from live_eval.data.benchmarks.fetching import fetch_benchmark, files_folder
from live_eval.errors import DataError, UsageError
from tests.loopback.weights.publisher import Publisher, serve, sha256
from tests.support.benchmarks import SETS, voicebench_part

SPEC = BENCHMARKS["voicebench"]
TREE = f"/api/datasets/{SPEC.repository}/tree/{SPEC.revision}"
FILES = f"/datasets/{SPEC.repository}/resolve/{SPEC.revision}"
ADVBENCH = "advbench/test-00000-of-00001.parquet"


class Hasty(SystemClock):
    """A clock that does not wait."""

    async def sleep_until(self, at_ns: int) -> None:
        return


def listing(files: dict[str, bytes]) -> bytes:
    return json.dumps(
        [
            {"type": "directory", "path": "advbench", "size": 0},
            *(
                {"type": "file", "path": name, "size": len(content), "lfs": {"oid": sha256(content)}}
                for name, content in files.items()
            ),
        ]
    ).encode()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """A hub with two parts of VoiceBench, at the pinned revision."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    voicebench_part(tmp_path / "vb", "advbench", [{"prompt": f"How do I pick lock {n}?"} for n in range(20)])
    voicebench_part(tmp_path / "vb", "wildvoice", [{"prompt": "What is a comet?"}] * 4, shards=2)
    files = {
        path.relative_to(tmp_path / "vb").as_posix(): path.read_bytes()
        for path in sorted((tmp_path / "vb").rglob("*.parquet"))
    }
    published = Publisher({f"{FILES}/{name}": content for name, content in files.items()})
    for part in ("advbench", "wildvoice"):
        mine = {name: content for name, content in files.items() if name.startswith(part)}
        published.files[f"{TREE}/{part}"] = listing(mine)
    server = serve(published)
    monkeypatch.setenv("HF_ENDPOINT", published.address)
    yield published
    published.over.set()
    server.shutdown()
    server.server_close()


def add(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["add", *arguments])


def paths(hub: Publisher) -> list[str]:
    return [asked.path.removeprefix(FILES).removeprefix(TREE) for asked in hub.asked]


def test_a_part_is_downloaded_recorded_and_read(hub: Publisher) -> None:
    found = add("voicebench/advbench")
    assert found.exit_code == 0, found.output
    assert [line for line in found.stderr.splitlines() if line] == [
        "VoiceBench: https://huggingface.co/datasets/hlt-lab/voicebench, revision b02edcef1330",
        "  licence: Apache-2.0",
        "  advbench: 1 file",
        "next: live-eval data check voicebench/advbench, live-eval run ENDPOINT --data voicebench/advbench",
    ]
    assert paths(hub) == ["/advbench", f"/{ADVBENCH}"]
    record = read_record(SPEC)
    assert record is not None
    content = hub.files[f"{FILES}/{ADVBENCH}"]
    assert (record.revision, record.parts) == (SPEC.revision, ("advbench",))
    assert record.files == {ADVBENCH: (len(content), sha256(content))}
    assert len(load(locate("voicebench/advbench")).cases) == 20


def test_a_repeated_add_downloads_nothing(hub: Publisher) -> None:
    add("voicebench/advbench")
    hub.asked.clear()
    again = add("voicebench/advbench")
    assert "  advbench: 1 file, 1 already downloaded" in again.stderr
    assert paths(hub) == []


def test_another_part_joins_the_record(hub: Publisher) -> None:
    add("voicebench/advbench")
    assert "  wildvoice: 2 files" in add("voicebench/wildvoice").stderr
    record = read_record(SPEC)
    assert record is not None
    assert record.parts == ("advbench", "wildvoice")
    assert len(record.files) == 3


def test_an_interrupted_download_is_resumed(hub: Publisher) -> None:
    content = hub.files[f"{FILES}/{ADVBENCH}"]
    hub.cuts = [10**9, len(content) // 2, 0, 0, 0, 0]
    with pytest.raises(DataError, match="partial download is kept, and the next download resumes it"):
        fetch_benchmark(SPEC, ["advbench"], clock=Hasty())
    assert read_record(SPEC) is None
    here = (files_folder(SPEC) / f"{ADVBENCH}.part").stat().st_size
    assert 0 < here <= len(content) // 2
    hub.asked.clear()
    assert add("voicebench/advbench").exit_code == 0
    assert [asked.range for asked in hub.asked] == [None, f"bytes={here}-"]


def test_a_complete_file_of_an_incomplete_part_is_kept(hub: Publisher) -> None:
    second = "wildvoice/test-00001-of-00002.parquet"
    content = hub.files.pop(f"{FILES}/{second}")
    hub.files[f"{FILES}/{second}"] = b"<html>" + content[6:]
    differs = (
        f"{second}: expected SHA-256 .* the file was discarded; the publisher's file differs from that of "
        "the pinned revision b02edcef1330; to try again, run live-eval data add voicebench/wildvoice$"
    )
    with pytest.raises(DataError, match=differs):
        fetch_benchmark(SPEC, ["wildvoice"])
    assert (files_folder(SPEC) / "wildvoice/test-00000-of-00002.parquet").is_file()
    hub.files[f"{FILES}/{second}"] = content
    hub.asked.clear()
    assert "  wildvoice: 2 files, 1 already downloaded" in add("voicebench/wildvoice").stderr
    assert paths(hub) == ["/wildvoice", f"/{second}"]


def test_a_changed_file_is_noted_and_restored(hub: Publisher) -> None:
    add("voicebench/advbench")
    path = files_folder(SPEC) / ADVBENCH
    content = path.read_bytes()
    path.write_bytes(content[:-7] + b"another")  # the same size
    assert fetch_benchmark(SPEC, ["advbench"], again=True).files[ADVBENCH] == (len(content), sha256(content))
    assert path.read_bytes() == content
    voicebench_part(files_folder(SPEC), "advbench", [{"prompt": "x"}])
    assert "files differ from revision b02edcef1330" in " ".join(load(locate("voicebench/advbench")).notes)
    assert add("voicebench/advbench").exit_code == 0
    assert path.read_bytes() == content


def test_an_unknown_split_is_refused_before_its_part_is_downloaded(hub: Publisher) -> None:
    found = add("voicebench/advbench/nolaw")
    assert str(found.exception) == "voicebench/advbench has no split 'nolaw'; expected one of test"
    assert paths(hub) == ["/advbench"]
    assert add("voicebench/advbench/test").exit_code == 0


def test_a_damaged_download_is_restored_by_again(hub: Publisher) -> None:
    add("voicebench/advbench")
    path = files_folder(SPEC) / ADVBENCH
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(
        DataError, match=f"live-eval data add voicebench/advbench --again restores {ADVBENCH}$"
    ):
        load(locate("voicebench/advbench"))
    assert add("voicebench/advbench", "--again").exit_code == 0
    assert len(load(locate("voicebench/advbench")).cases) == 20


def test_offline(hub: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = add("voicebench/advbench")
    assert isinstance(found.exception, DataError)
    message = str(found.exception)
    assert "Cannot connect to host 127.0.0.1:9" in message
    assert message.endswith(
        "Check the network, or use an existing copy: live-eval data add voicebench/advbench --path FOLDER"
    )
    assert hub.asked == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "expected a list of files, got something else"),
        (b"not JSON", "expected a list of files"),
        (b"[]", "expected files of VoiceBench in the folder advbench, found none"),
        (b'[{"type": "file", "path": "../../x", "size": 1}]', "is outside the benchmark's folder"),
    ],
)
def test_a_list_that_cannot_be_used(hub: Publisher, content: bytes, message: str) -> None:
    hub.files[f"{TREE}/advbench"] = content
    with pytest.raises(DataError, match=f"^{hub.address}/.*{message}"):
        fetch_benchmark(SPEC, ["advbench"])
    assert [path.name for path in files_folder(SPEC).iterdir()] == []


def test_a_revision_that_is_gone(hub: Publisher) -> None:
    hub.statuses = [404]
    with pytest.raises(DataError, match=r"HTTP 404: nothing is published there any more"):
        fetch_benchmark(SPEC, ["advbench"])


def restricted(**changes: Any) -> BenchmarkSpec:
    return replace(SPEC, licence="CC BY-NC 4.0", noncommercial=True, **changes)


def test_a_licence_that_forbids_commercial_use_is_confirmed(
    hub: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.data.benchmarks.BENCHMARKS", {"voicebench": restricted()})
    refused = add("voicebench/advbench")
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception) == (
        "VoiceBench is licensed under CC BY-NC 4.0, which forbids commercial use: "
        "pass --noncommercial to confirm that your use is not commercial"
    )
    assert hub.asked == []
    assert add("voicebench/advbench", "--noncommercial").exit_code == 0
    note = load(locate("voicebench/advbench")).notes[0]
    assert note.endswith("neither they nor results with them may be used commercially")


def test_a_benchmark_that_users_assemble(monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = "request the corpora from their authors"
    spec = restricted(repository="", revision="", by_hand=by_hand, undownloaded="they have terms")
    monkeypatch.setattr("live_eval.data.benchmarks.BENCHMARKS", {"voicebench": spec})
    found = add("voicebench", "--noncommercial")
    assert isinstance(found.exception, UsageError)
    assert str(found.exception) == (
        "live-eval does not download VoiceBench, because they have terms: request the corpora from their "
        "authors. Then run live-eval data add voicebench --path FOLDER --noncommercial, where FOLDER "
        "contains alpacaeval, alpacaeval_full, … and 9 more"
    )


def test_parts_in_one_table_are_downloaded_together(hub: Publisher, tmp_path: Path) -> None:
    spec = BENCHMARKS["audio-multichallenge"]
    table = "data/test-00000-of-00001.parquet"
    content = (SETS[spec.name](tmp_path / "mc", 1) / table).read_bytes()
    at = f"{spec.repository}/resolve/{spec.revision}"
    hub.files[f"/datasets/{at}/{table}"] = content
    hub.files[f"/api/datasets/{spec.repository}/tree/{spec.revision}/data"] = listing({table: content})
    found = add("audio-multichallenge/voice_editing")
    assert found.exit_code == 0, found.output
    assert found.stderr.splitlines()[2:4] == ["  all 4 parts, about 4,900 MB", "  data: 1 file"]
    assert [asked.path for asked in hub.asked] == [
        f"/api/datasets/{spec.repository}/tree/{spec.revision}/data",
        f"/datasets/{at}/{table}",
    ]
    record = read_record(spec)
    assert record is not None
    assert record.parts == tuple(spec.parts)
    assert record.files == {table: (len(content), sha256(content))}
    hub.asked.clear()
    assert "  data: 1 file, 1 already downloaded" in add("audio-multichallenge").stderr
    assert hub.asked == []
    assert load(locate("audio-multichallenge/voice_editing")).cases
    split = add("audio-multichallenge/voice_editing/test")
    assert "has no split 'test'; expected one of none" in str(split.exception)
    path = files_folder(spec) / table
    path.write_bytes(b"x" * len(content))
    with pytest.raises(DataError, match=f"audio-multichallenge --again restores {table}$"):
        load(locate("audio-multichallenge"))
    assert add("audio-multichallenge", "--again").exit_code == 0
    assert path.read_bytes() == content


def test_another_revision_fails_the_check(hub: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    add("voicebench/advbench")
    assert CliRunner().invoke(command, ["check", "voicebench/advbench"]).exit_code == 0
    newer = replace(SPEC, revision="1" * 40)
    monkeypatch.setattr("live_eval.data.benchmarks.BENCHMARKS", {"voicebench": newer})
    checked = CliRunner().invoke(command, ["check", "voicebench/advbench"])
    assert checked.exit_code == 3
    assert "; the files are of revision b02edcef1330, and live-eval expects 111111111111" in checked.stdout
