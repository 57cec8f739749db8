"""The code in the documentation works: Python, commands that need no endpoint, run files, manifests."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml

from live_eval.analysis.turn_taking.trial import Trial
from live_eval.campaigns.duplex.probes import probes_for, trials_of
from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.cli import main
from live_eval.cli._duplex_command import print_duplex
from live_eval.cli.duplex import command as duplex_command
from live_eval.data import load
from live_eval.judging import JudgeSpec, Scored
from live_eval.recording import ScoreStore, TurnRecord
from live_eval.recording.schema import RUN_TABLES, SCORES_TABLES
from live_eval.registry import CLIENTS, JUDGES, ClientSpec, find_plugins
from live_eval.run.run_file import validate
from live_eval.session.speaker import ReplyAudible
from live_eval.types import SpeechKind
from tests.support.bundled import SPECS
from tests.support.conversations import conversation, reply, said
from tests.support.documentation import DOCS, PAGES, ROOT, blocks, calls, run_python, shell_lines
from tests.support.duplex_campaigns import barge_in, pause, write_duplex_campaign

FIRST = {
    *("A", "C", "RUN", "ws", "pair-openai"),
    *("recordings/demo", "recordings/first", "recordings/basic", "recordings/clean"),
}
SECOND = {"B", "webrtc", "recordings/enhance", "recordings/lossy", "pair-gemini-live"}
"""The names of recorded runs in the pages; the second ones are compared with the first."""
OFFLINE = (
    "compare",
    "endpoints",
    "export",
    "impair",
    "judges",
    "leaderboard",
    "plan",
    "report",
    "runs",
    "show",
)
"""Commands that end soon without an endpoint, a model or a network."""
ELSEWHERE = {
    "plan --detect 5 --metric accuracy:understanding --from Q": "needs a run of questions",
    "export recordings/demo --format inspect -o logs/demo.eval": "inspect_ai takes seconds to load",
    "leaderboard 'recordings/paper-*' -o tables.md": "the shell expands the pattern",
    "impair delay=100ms,jitter=20ms,down.bandwidth=256kbps --to https://api.openai.com": "never ends",
}
"""Offline commands that are tested elsewhere or not at all."""


def documented_commands() -> Iterator[list[str]]:
    """Yield the offline commands in the shell blocks of all pages, each once."""
    seen: set[str] = set()
    for page in PAGES:
        for line in shell_lines(page):
            for words in calls(line):
                if words and words[0] in OFFLINE and (text := shlex.join(words)) not in {*seen, *ELSEWHERE}:
                    seen.add(text)
                    yield words


@pytest.fixture
def workplace(
    tmp_path: Path, run_folder: Path, slower_run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A working folder with the runs named in the pages."""
    for name in FIRST | SECOND:
        folder = tmp_path / name
        shutil.copytree(slower_run_folder if name in SECOND else run_folder, folder)
        with ScoreStore.open(folder) as scores:
            for number in range(24):
                turn = f"id_{number // 2}/{'neutral' if number % 2 else 'target'}"
                scores.put("rubric", "1", turn, Scored({"c4": 1 + number % 4 + (name in SECOND)}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_on_recorded_runs_succeed(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = list(documented_commands())
    assert len(commands) > 15
    for words in commands:
        with pytest.raises(SystemExit) as ended:
            main(words)
        output = capsys.readouterr()
        assert not ended.value.code, f"live-eval {shlex.join(words)}: {output.err}"
    assert (workplace / "demo.parquet").exists()
    assert (workplace / "tables.tex").exists()


UNPLANNED = {
    "--retry-failed",  # has no estimate
    "recordings/2026-11-28T10-00-00Z-reference-live-takes",  # a conversation records it first
    "voicebench/openbookqa",  # the data set is downloaded first
}
"""Arguments of documented runs that are not planned here."""


def documented_runs() -> Iterator[Any]:
    """Yield the arguments of every documented `live-eval run`, each once."""
    seen: set[str] = set()
    for page in PAGES:
        for line in shell_lines(page):
            for words in calls(line):
                text = shlex.join(words)
                if words[:1] == ["run"] and not UNPLANNED.intersection(words) and text not in seen:
                    seen.add(text)
                    yield pytest.param(words, id=text)


@pytest.mark.parametrize("words", list(documented_runs()))
def test_documented_runs_are_planned(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An estimate makes no request but builds the complete plan, which checks names, values and data."""
    endpoint = words[1]
    specs = {spec.name: spec for spec in SPECS.values()}
    if endpoint in specs.keys() - {spec.name for spec in find_plugins(CLIENTS)}:
        pytest.skip(f"{endpoint} is newer than the installation: pip install -e .")
    for package in specs[endpoint].packages if endpoint in specs else ():
        pytest.importorskip(package)
    for folder, part in itertools.product(("PATH/TO/EchoMind", "EchoMind"), ("synthesis", "human")):
        audio = tmp_path / folder / f"data_{part}/audio/a.wav"
        audio.parent.mkdir(parents=True)
        soundfile.write(audio, np.full(8000, 0.1), 8000)
        target = {"target_audio_info": {"target_input_audio_file": "a.wav"}}
        script = {"case_id": "id_1", "script": "Guess what!", "spoken_info": "happy", **target}
        (audio.parents[1] / f"script_info_{part}.json").write_text(json.dumps([script]))
    (tmp_path / "my-recordings").mkdir()
    shutil.copy(tmp_path / "EchoMind/data_human/audio/a.wav", tmp_path / "my-recordings/a.wav")
    for name in ("mine.jsonl", "my-dialogues.jsonl"):
        (tmp_path / name).write_text('{"id": "a", "audio": "my-recordings/a.wav", "text": "Guess what!"}\n')
    for name in ("my.toml", "run.toml"):
        (tmp_path / name).write_text('[endpoint]\nname = "openai"\nbase_url = "ws://10.0.0.1/v1"\n')
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for variable in {spec.base_url_variable for spec in SPECS.values()} - {None}:
        monkeypatch.setenv(str(variable), "wss://10.0.0.1")
    with pytest.raises(SystemExit) as ended:
        main([*(word for word in words if word not in ("--estimate", "--resume")), "--estimate"])
    output = capsys.readouterr()
    assert not ended.value.code, output.err
    assert "assumed" in output.out


def test_python_reads_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_python(DOCS / "reference/run-folder.md")
    assert capsys.readouterr().out.count("id_") == 24
    [in_python, *_] = blocks(DOCS / "how-to/export.md", "python")
    names: dict[str, Any] = {}
    exec(in_python.text, names)
    assert len(names["turns"]) == 24
    assert "wind" in capsys.readouterr().out


def test_the_readme_reads_a_run(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [in_python, in_pytest] = blocks(ROOT / "README.md", "python")
    exec(in_python.text, {})
    assert "wind" in capsys.readouterr().out
    # tests/loopback/pytest_plugin/test_plugin.py runs this one.
    assert in_pytest.text == blocks(DOCS / "how-to/pytest.md", "python")[0].text


def test_the_specifications_of_plugins_are_valid() -> None:
    page = DOCS / "how-to/plugins.md"
    [client, judge] = [block.text for block in blocks(page, "python")]
    for text, kind in ((client, ClientSpec), (judge, JudgeSpec)):
        names: dict[str, Any] = {}
        exec(text, names)
        assert isinstance(names["SPEC"], kind)
    groups = [tomllib.loads(block.text)["project"]["entry-points"] for block in blocks(page, "toml")]
    assert [list(group) for group in groups] == [[CLIENTS], [JUDGES]]


def test_the_metrics_of_conversations_are_computed() -> None:
    talk = conversation([said((0, 2))], [reply((3, 5))])
    assert run_python(DOCS / "reference/turn-taking-metrics.md", conversations=[talk])["metrics"]


def test_the_sample_of_a_duplex_campaign_is_what_its_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = [block for block in blocks(DOCS / "how-to/turn-taking.md", "") if block.text.startswith("$ ")]
    typed, *shown = block.text.splitlines()
    [words] = calls(typed)
    assert words[0] == "duplex"
    asked = duplex_command.commands["measure"].make_context("measure", words[1:]).params
    repeat = asked["repeat"]
    trials = [each.trial for each in trials_of(probes_for(asked["probes"], None), repeat, 0)]
    folder = write_duplex_campaign(
        tmp_path / "c", {"clean": [(each.probe, each.condition, turns_of(each)) for each in trials]}
    )
    print_duplex(duplex_summary(read_duplex(folder)))
    printed = capsys.readouterr().out.splitlines()

    def columns(lines: list[str]) -> list[list[str]]:
        return [re.split(r"\s{2,}", line.strip()) for line in lines[: lines.index("")]]

    (heading, *rows), (expected, *conditions) = columns(shown), columns(printed)
    assert heading == expected
    assert [row[:2] for row in rows] == [row[:2] for row in conditions]
    for row in rows:
        judged = sum(int(count) for count in re.findall(r" (\d+)", row[3]))
        assert judged == repeat + (int(row[4]) if row[4] != "–" else 0)
        assert len(row) == len(heading)

    def labels(lines: list[str]) -> list[str]:
        return [re.sub(r"-?\d+", "N", line) for line in lines[lines.index("") :] if line]

    assert labels(shown) == labels(printed)


def turns_of(trial: Trial) -> list[TurnRecord]:
    """Return plausible turns of a trial, with an outcome that passes."""
    match trial.probe:
        case "pause":
            gap_ms = int(trial.condition.removesuffix(" ms"))
            return pause(trial.trial_id, gap_ms, waits=gap_ms <= 400)
        case "barge-in":
            return barge_in(trial.trial_id, stop_ms=100)
        case _:
            first, over = barge_in(trial.trial_id, stop_ms=100)
            return [first, replace(over, case=replace(over.case, speech=SpeechKind.BACKCHANNEL))]


def test_the_speaker_knows_when_to_interrupt() -> None:
    hear = run_python(DOCS / "how-to/speaker.md")["hear"]
    speaker = SimpleNamespace(_due_ns=None)
    hear(speaker, ReplyAudible("resp_1", 7))
    hear(speaker, ReplyAudible("resp_2", 8))
    assert speaker._due_ns == 1_500_000_007


@pytest.mark.parametrize("name", ["new-judge", "new-vendor", "parley"])
def test_the_examples_are_checked_as_they_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "examples" / name
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    run_python(folder / "README.md")
    for module in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


ELSEWHERE_RUN = {"export.md", "pytest.md"}
"""Pages whose Python code is run at least partly in tests/loopback and tests/e2e."""


def test_no_python_block_is_left_out() -> None:
    run_here = {"run-folder.md", "plugins.md", "turn-taking-metrics.md", "speaker.md", "README.md"}
    assert {page.name for page in PAGES if blocks(page, "python")} == run_here | ELSEWHERE_RUN


def run_files() -> Iterator[Any]:
    for page in PAGES:
        for block in blocks(page, "toml"):
            if "[project" not in block.text:
                yield pytest.param(block.text, id=f"{page.name}:{block.line}")


@pytest.mark.parametrize("text", list(run_files()))
def test_run_files_are_valid(text: str) -> None:
    validate(tomllib.loads(text))


def rows(text: str) -> list[Any]:
    """Return the JSON values in a text, which may be wrapped."""
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "json")], ids=lambda page: page.name)
def test_manifests_are_valid(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page, "json")):
        values = rows(block.text)
        if "script" in values[0]:
            continue  # an entry of EchoMind's, below
        manifest = tmp_path / f"{number}.jsonl"
        manifest.write_text("\n".join(map(json.dumps, values)))
        turns = [turn for value in values for turn in value.get("turns", [value])]
        for turn in turns:
            soundfile.write(tmp_path / turn["audio"], np.zeros(4_800, np.int16), 24_000)
        data = load(manifest)
        assert [case.problem for case in data.cases] == [None] * len(turns)


def is_part_of(some: Any, whole: Any) -> bool:
    """Return whether `some` equals `whole`, except for omitted fields."""
    if isinstance(some, dict) and isinstance(whole, dict):
        return all(key in whole and is_part_of(value, whole[key]) for key, value in some.items())
    return bool(some == whole)


def test_the_entry_of_the_sample_is_in_the_sample() -> None:
    values = [
        value for block in blocks(DOCS / "reference/data-formats.md", "json") for value in rows(block.text)
    ]
    [entry] = [value for value in values if "script" in value]
    sample = json.loads((ROOT / "live_eval/data/sample/data_human/script_info_human.json").read_text("utf-8"))
    assert any(is_part_of(entry, each) for each in sample)


def pages_in(navigation: list[Any]) -> set[str]:
    """Return the pages of a part of the site's navigation that are not generated."""
    inner: set[str] = set()
    for each in navigation:
        target = next(iter(each.values())) if isinstance(each, dict) else each
        inner |= pages_in(target) if isinstance(target, list) else {target}
    return {page for page in inner if not page.startswith(("generated/", "source/"))}


def test_index_and_navigation_have_every_page() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    sections = {next(iter(each)): pages_in([each]) for each in navigation}
    index = (DOCS / "README.md").read_text("utf-8")
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL):
        assert set(re.findall(r"\]\((\w[^)#]+)\)", text)) == sections[title]
    assert set.union(*sections.values()) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_every_column_of_the_databases_is_documented() -> None:
    words = set(re.findall(r"`(\w+)`", (DOCS / "reference/run-folder.md").read_text("utf-8")))
    for statement in (*RUN_TABLES, *SCORES_TABLES):
        table = re.findall(r"CREATE TABLE (\w+)", statement)
        columns = re.findall(r'^ +"?([a-z]\w*)"? (?:INTEGER|TEXT|BLOB)', statement, re.MULTILINE)
        assert columns
        assert {*table, *columns} <= words


def test_every_layer_is_in_the_design() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    layers = [
        re.findall(r"live_eval\.(\w+)", layer) for layer in tools["importlinter"]["contracts"][0]["layers"]
    ]
    page = (DOCS / "explanation/architecture.md").read_text("utf-8")
    table = re.findall(r"^\| [\w ]+ \| (`.+?`) \|", page, re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in table] == layers


def test_every_room_is_in_the_list_of_contributing() -> None:
    rooms = {
        path.parent.name
        for path in (ROOT / "live_eval").glob("*/__init__.py")
        if not path.parent.is_symlink()
    }
    listed = re.findall(r"^  (\w+)/ ", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert set(listed) == rooms
