"""The main job from the command line: the built-in endpoint with its models, judges, and the report."""

import json
from pathlib import Path

import pytest

from tests.e2e.helpers import live_eval, shown

pytest.importorskip("faster_whisper", reason="needs the extra `local`")
pytest.importorskip("hibari", reason="needs the extra `local`")
pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "sample"
    live_eval("run", "reference", "--limit", "2", "--out", out)
    return out


def test_a_run_of_the_sample_is_complete(sample_run: Path) -> None:
    summary = shown(sample_run)
    assert summary["turns"].items() >= {"total": 2, "captured": 2, "failed": 0}.items()
    assert summary["failures"] == {}
    latencies = summary["latency_ms"]
    for name in ("connect", "endpointing", "first_byte", "voice_to_voice", "lead_silence", "transcript"):
        assert set(latencies[name]) >= {"n", "p50", "p95"}
    assert latencies["connect"]["n"] == 2
    scores = summary["scores"]
    names = "dnsmos.ovrl dnsmos.p808 wer_heard.normalized wer_spoken.normalized bleu rouge_l"
    for name in names.split():
        assert set(scores[name]) >= {"mean", "n", "n_unscored", "n_failed"}
        assert scores[name]["n"] == 2, name
    assert scores["wer_heard.normalized"]["mean"] <= 10
    assert scores["wer_spoken.normalized"]["mean"] <= 10
    assert 2 < scores["dnsmos.ovrl"]["mean"] < 5


def test_the_report_opens_offline(sample_run: Path) -> None:
    page = (sample_run / "report.html").read_text("utf-8")
    assert page.count("ZkxhQ") >= 2, "both sides of each turn are inside, as FLAC in base64"
    assert 'src="http' not in page
    assert 'href="http' not in page.replace('href="https://arxiv.org', "")
    markdown = live_eval("report", sample_run, "--format", "md")
    assert "voice" in markdown


def test_the_rows_of_an_export(sample_run: Path) -> None:
    rows = [json.loads(line) for line in live_eval("export", sample_run, "--to", "jsonl").splitlines()]
    assert len(rows) == 2
    assert len(live_eval("export", sample_run, "--to", "csv").splitlines()) >= 3


def test_scoring_again_reuses_stored_scores(sample_run: Path) -> None:
    before = shown(sample_run)["scores"]
    live_eval("score", sample_run, "--judges", "bleu,dnsmos", "--json")
    assert shown(sample_run)["scores"] == before


def test_the_run_contains_no_key(tmp_path: Path, sample_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    out = tmp_path / "refused"
    arguments = ("--endpoint", "openai", "--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    output = live_eval("run", *arguments, "--limit", "1", "--word-times", "off", "--out", out, status=3)
    assert shown(out)["failures"] == {"connection_refused": 1}
    assert "very-secret" not in output
    for path in out.rglob("*"):
        assert path.is_dir() or b"very-secret" not in path.read_bytes(), path


@pytest.mark.echomind
@pytest.mark.slow
def test_every_recording_of_the_echomind_demo_is_captured(echomind_demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "echomind"
    data = echomind_demo / "data_synthesis"
    live_eval("run", "reference", "--data", data, "--neutral-rule", "off", "--out", out, "--no-report")
    summary = shown(out)
    assert summary["turns"].items() >= {"total": 24, "captured": 24, "failed": 0}.items()
    assert summary["scores"]["wer_heard.normalized"]["n"] == 24
    assert summary["scores"]["wer_heard.normalized"]["mean"] < 10
