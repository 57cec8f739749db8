"""Run and score every benchmark, in its exact layout, with the built-in endpoint."""

from __future__ import annotations

import html
import json
import logging
import threading
import zlib
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.data.benchmarks import BENCHMARKS, FOLDER_VARIABLE
from live_eval.speech.recognition import MODEL_VARIABLE
from live_eval.types import ScoringRule
from tests.support.benchmarks import SETS

ITEMS = 8  # the fewest with an interval
BY_MODEL = {
    ScoringRule.RATING,
    ScoringRule.GUIDED_RATING,
    ScoringRule.REFERENCE,
    ScoringRule.RUBRICS,
}
TURN_TAKING = ("full-duplex-bench", "humdial-fdbench")
RATED = ("vstyle",)


class JudgeModel(BaseHTTPRequestHandler):
    """A stand-in for a judge model, whose verdicts depend on the prompt's checksum."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        seed = zlib.crc32(json.dumps(content).encode())
        rating, right = seed % 5 + 1, seed % 2 == 0
        verdict: Mapping[str, Any] = {"score": rating, "VES_score": rating}
        if '"correct"' in text:
            verdict = {"correct": right}
        elif '"met"' in text:
            verdict = {
                "met": [right] * text.partition("Numbered criteria: ")[2].partition("\n")[0].count(". ")
            }
        answer = {"explanation": "By its checksum.", **verdict}
        choice = {"index": 0, "finish_reason": "stop", "message": {"content": json.dumps(answer)}}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        sent = json.dumps({"id": "c", "model": "stand-in", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), JudgeModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def invoke(*arguments: object) -> str:
    found = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture
def added(
    request: pytest.FixtureRequest, tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Add a benchmark with the published layout by its name."""
    name = str(request.param)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in")
    monkeypatch.setenv(MODEL_VARIABLE, str(tmp_path / "none"))  # the endpoint recognises no words
    root = SETS[name](
        tmp_path / name, 4 * ITEMS if name in RATED else ITEMS
    )  # half of them are about empathy
    confirmed = ["--noncommercial"] if BENCHMARKS[name].noncommercial else []
    invoke("data", "add", name, "--path", root, *confirmed)
    return name


def note(*cells: object, value: Mapping[str, Any]) -> None:
    """Log a row of the table of scores; ``pytest --log-level=INFO -rP`` shows it."""
    low, high = value["interval"]
    logging.getLogger(__name__).info("%s: %.2f (%.2f to %.2f)", cells, value["value"], low, high)


def test_every_benchmark_has_a_small_copy() -> None:
    assert list(SETS) == list(BENCHMARKS)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("added", [name for name in SETS if name not in TURN_TAKING + RATED], indirect=True)
def test_a_run_is_scored_with_intervals(added: str, tmp_path: Path, model: str) -> None:
    spec, out = BENCHMARKS[added], tmp_path / "run"
    options = ("--concurrency", 16, "--word-times", "off", "--judges", "benchmark_rules")
    invoke("run", "reference", "--data", added, "--out", out, *options)
    if BY_MODEL & {part.rule for part in spec.parts.values()}:
        invoke("score", out, "--judges", "benchmark_model", "--llm-base-url", model)
    parts = json.loads(invoke("show", out, "--json"))["tasks"]["benchmark"]["parts"]
    assert set(parts) == set(spec.parts)
    for name, part in parts.items():
        rule = spec.parts[name].rule
        if rule is not ScoringRule.NONE:
            kinds = ["rated"] if rule in BY_MODEL else ["official", "ours"]  # equal guesses have no interval
            kind = next(each for each in kinds if part[each]["interval"] is not None)
            assert part[kind]["n"] == ITEMS, (name, part)
            note(added, name, part["items"], rule.value, kind, value=part[kind])
    assert f"under {spec.licence}" in html.unescape((out / "report.html").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("added", TURN_TAKING, indirect=True)
def test_a_campaign_has_rates_with_intervals(added: str, tmp_path: Path) -> None:
    options = ("--probe", "own", "--sentinel-turns", 0, "--concurrency", 16, "--word-times", "off")
    told = json.loads(
        invoke("duplex", "reference", "--data", added, "--out", tmp_path / "c", *options, "--json")
    )
    conditions = {each["condition"]: each for each in told["probes"]}
    assert set(conditions) == set(BENCHMARKS[added].parts)
    assert any(BENCHMARKS[added].licence in each for each in told["notes"])
    for name, each in conditions.items():
        assert sum(each["outcomes"].values()) == ITEMS, each
        if each["passed"]["interval"] is not None:
            note(added, name, ITEMS, each["rule"], each["outcomes"], value=each["passed"])


@pytest.mark.slow
@pytest.mark.parametrize("added", RATED, indirect=True)
def test_an_audit_has_a_correlation_with_an_interval(added: str, model: str) -> None:
    told = invoke("audit", "ves", "--data", added, "--limit", 0, "--llm-base-url", model, "--json")
    report = json.loads(told)
    (found,) = report["agreement"]["outputs"].values()
    assert found["n"] == 2 * ITEMS
    note(added, "", found["n"], "audit ves", value=found["spearman"])
