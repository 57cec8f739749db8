import os
from pathlib import Path

import click
import pytest

from live_eval.campaigns.documents import DUPLEX_CAMPAIGN, LATENCY_CAMPAIGN
from live_eval.cli._options import RUN, RUN_OR_CAMPAIGN, RunFolder, folder_to_resume
from live_eval.errors import UsageError
from live_eval.recording import RUN_FILE, RunWriter


def test_the_newest_runs_have_short_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(["b", "a", "c"]):
        store = tmp_path / "recordings" / name / RUN_FILE
        RunWriter.create(store.parent, {}).end()
        os.utime(store, (1_000 - age, 1_000 - age))
    (tmp_path / "recordings" / "c" / "report.html").touch()  # a newer report does not count
    assert [RUN.convert(name, None, None) for name in ("latest", "@1", "@3")] == [
        Path("recordings", name) for name in ("b", "b", "c")
    ]
    with pytest.raises(UsageError, match="@4: expected a run in recordings/, found 3"):
        RUN.convert("@4", None, None)
    RunWriter.create(tmp_path / "latest", {}).end()
    assert RUN.convert("latest", None, None) == Path("latest")


def test_unreadable_runs_are_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    RunWriter.create(tmp_path / "recordings" / "good", {}).end()
    os.utime(tmp_path / "recordings" / "good" / RUN_FILE, (1_000, 1_000))
    for name in ("damaged", "cut"):
        (tmp_path / "recordings" / name).mkdir()
    (tmp_path / "recordings" / "damaged" / RUN_FILE).write_bytes(b"no database" * 100)
    (tmp_path / "recordings" / "cut" / LATENCY_CAMPAIGN.file_name).write_text("{", "utf-8")
    RunWriter.create(tmp_path / "recordings" / "cut" / "one", {}).end()
    assert RUN_OR_CAMPAIGN.convert("latest", None, None) == Path("recordings/good")
    said = capsys.readouterr().err
    assert "note: latest: skipped recordings/damaged: " in said
    assert "note: latest: skipped recordings/cut: " in said
    with pytest.raises(UsageError, match="@2: expected a run in recordings/, found 1"):
        RUN.convert("@2", None, None)
    assert RunFolder(damaged=True).convert("@1", None, None) == Path("recordings/damaged")


def test_the_newest_campaign_of_a_kind_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, document in (("a", LATENCY_CAMPAIGN), ("b", DUPLEX_CAMPAIGN)):
        folder = tmp_path / "recordings" / name
        folder.mkdir(parents=True)
        (folder / document.file_name).touch()
    assert folder_to_resume(Path("latest"), "campaign") == Path("recordings/a")
    assert folder_to_resume(Path("@1"), "duplex") == Path("recordings/b")
    assert folder_to_resume(Path("mine"), "duplex") == Path("mine")
    with pytest.raises(UsageError, match="latest: expected a run in recordings/, found none"):
        folder_to_resume(Path("latest"))
    with pytest.raises(UsageError, match="@2: expected a duplex campaign in recordings/, found 1"):
        folder_to_resume(Path("@2"), "duplex")


def test_a_run_of_a_duplex_campaign_is_named(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "clean", {}).end()
    (tmp_path / DUPLEX_CAMPAIGN.file_name).touch()
    with pytest.raises(UsageError, match=f"duplex campaign, not a run; its runs: {tmp_path / 'clean'}"):
        RUN.convert(str(tmp_path), None, None)


def test_a_duplex_campaign_is_not_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RunWriter.create(tmp_path / "recordings" / "mine", {}).end()
    campaign = RunFolder(("duplex",))
    with pytest.raises(
        click.BadParameter, match=r"expected a duplex campaign folder, got a run; .*compare` "
    ):
        campaign.convert("recordings/mine", None, None)
    with pytest.raises(UsageError, match="latest: expected a duplex campaign in recordings/, found none"):
        campaign.convert("latest", None, None)
