"""A usage error is one line with the flag, the given value and the expected value."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from live_eval.cli import COMMANDS, main
from live_eval.cli._options import DurationType
from live_eval.cli.endpoint import command as endpoint
from live_eval.recording import RunWriter


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("lattency", "unknown command 'lattency' (did you mean latency?); expected one of run, "),
        (
            "weights fetc",
            "unknown command 'fetc' (did you mean fetch?); expected one of add, fetch, list, path",
        ),
        ("run opnai", "unknown endpoint 'opnai' (did you mean openai?); expected one of "),
        ("help", "unknown command 'help' (did you mean --help?); expected one of run, "),
        ("run openai --api-key x", "unknown flag --api-key: other users can read command lines; use --key-"),
        ("run --lmit 3", "unknown flag --lmit (did you mean --limit?); see live-eval run --help"),
        (
            "run --cluster",
            "unknown flag --cluster (did you mean --ray or --timing-bound?); see live-eval run --help",
        ),
        ("run --names wer", "unknown flag --names (did you mean --judges?); see live-eval run --help"),
        ("run --perform x", "unknown flag --perform: a flag of `live-eval live`; see live-eval run --help"),
        (
            "live x --probe y",
            "unknown flag --probe: a flag of `live-eval duplex`; see live-eval live",
        ),
        (
            "duplex compar a b",
            "unknown command 'compar' (did you mean compare?); expected one of compare, me",
        ),
        ("duplex compar", "unknown command 'compar' (did you mean compare?); expected one of compare, me"),
        ("weights downlod", "unknown command 'downlod' (did you mean fetch?); expected one of add, fetch"),
        ("runs prun", "unknown command 'prun' (did you mean gc?); expected one of delete, gc, list"),
        (
            "run reference --judges none,wer_heard",
            "--judges 'none,wer_heard': none cannot be combined with other judges",
        ),
        ("run reference --estimate --assert x", "assertion 'x': expected "),
        ("run reference --map foo=bar", "--map: unknown field 'foo'; expected one of id, text"),
        ("latency reference --input-s 3,abc", "--input-s: expected a duration, "),
        (
            "run reference --assert voice_to_voice.p95<abc",
            "assertion 'voice_to_voice.p95<abc': expected a number after <, got 'abc'",
        ),
        (
            "duplex reference --probe own --data voicebench",
            "--data voicebench: VoiceBench has no annotations for the probe own, unlike full-duplex-bench ",
        ),
        ("run reference --data=", "--data ''"),
        ("run openai --base-url=", "--base-url ''"),
        ("export a --format csv -o x.parquet", "--format csv: x.parquet has the suffix of the format"),
        ("doctor opnai", "unknown endpoint 'opnai' (did you mean openai?); expected one of "),
        ("doctor --model x", "expected ENDPOINT before the options of run, got --model"),
        ("show", "expected RUN; see live-eval show --help"),
        ("show nothing", "RUN 'nothing': not found; `live-eval runs list` lists runs"),
        ("show latset", "RUN 'latset': not found (did you mean latest?)"),
        (
            "run https://me:hidden@host/v1",
            "https://host/v1: expected an endpoint or a run file; pass an address",
        ),
        ("run reference --ice-servers stun.example.org --estimate", "--ice-servers "),
        (
            "studio --data smaple --port 0 --no-browser",
            "--data 'smaple': not found; expected a path, sample or a name of `live-eval data list`",
        ),
        (
            "studio --endpoint moshi=127.0.0.1:80",
            "--endpoint moshi=127.0.0.1:80: expected an address such as ",
        ),
        ("plan --detect 1 --metric ves --from a --power 90", "--alpha 0.05, --power 90: expected shares"),
        ("latency reference --turns many", "--turns 'many': expected a whole number"),
        ("latency reference --turns 0", "--turns 0: expected 1 or more"),
        ("latency reference extra", "unexpected extra; see live-eval latency --help"),
        ("latency reference --turns", "--turns: expected a value"),
        (
            "live openai --turn-mode manul",
            "--turn-mode 'manul': expected server_vad, manual or full_duplex",
        ),
        ("endpoint --port 99999", "--port 99999: expected 0 to 65535"),
        ("endpoint --delay-ms soon", "--delay-ms 'soon': expected a duration, such as 15, 500ms"),
        ("endpoint --delay-ms 1h", "--delay-ms '1h': expected 0 ms to 600000 ms"),
        ("duplex compare a b", "FIRST 'a': not found"),
        (
            "run openai --prices gpt-4o=2.5",
            "--prices gpt-4o 2.5: expected US dollars per million tokens in and ",
        ),
        (
            "run openai --prices gpt-4o=1,2,3",
            "--prices gpt-4o '1,2,3': expected US dollars per million tokens",
        ),
        (
            "run openai --base-url wss://example.org:99999/v1",
            "--base-url 'wss://example.org:99999/v1': expected an address such as wss://HOST/v1 with a port",
        ),
        ("run openai --judges wer", "unknown judge 'wer' (did you mean wer_heard or wer_spoken?)"),
        ("run openai --judges rubric --max-cost 5", "a cost limit requires a price for the model 'gpt-4o', "),
        ("audit --judge dnsmos .", "unknown flag --judge: JUDGE is an argument; pass it without a flag"),
        (
            "run reference --impair babble",
            "impairment 'babble': unknown name (did you mean noise_type=babble?)",
        ),
        (
            "run reference --impair babbel=1",
            "impairment 'babbel=1': unknown name 'babbel' (did you mean noise_type=babble?)",
        ),
        ("run reference --resume", "--resume requires --out, the run to continue (latest: the newest)"),
        ("run openai --judges nobody", "unknown judge 'nobody'; expected one of "),
        ("calibrate --sessions 0", "--sessions 0: expected 1 or more"),
        ("calibrate --sessions=many", "--sessions 'many': expected a whole number"),
        ("show .", "RUN '.': expected a run folder; `live-eval runs list` lists runs"),
        ("report .", "RUNS '.': expected a run or campaign folder; `live-eval runs list` lists runs"),
        ("show @0", "RUN '@0': expected latest, @1 (the newest run), @2 or higher"),
        ("run openai --voice --limit 1", "--voice: expected a value, got the flag --limit"),
        (
            "run openai --base-url http:/127.0.0.1:9/v1",
            "--base-url 'http:/127.0.0.1:9/v1': expected an address such as wss://HOST/v1 "
            "(did you mean http://127.0.0.1:9/v1?)",
        ),
        (
            "run openai --base-url 127.0.0.1:9999",
            "--base-url '127.0.0.1:9999': expected an address such as wss://HOST/v1 "
            "(did you mean ws://127.0.0.1:9999?)",
        ),
        (
            "run openai --ice-servers stun:stun.example:3478",
            "--ice-servers: expected a WebRTC endpoint, got openai (websocket); `live-eval endpoints` lists",
        ),
        ("run openai-chat-audio --turn-mode server_vad", "--turn-mode 'server_vad': expected manual for "),
        ("run openai-chat-audio --base-url 127.0.0.1:9/v1", "--base-url '127.0.0.1:9/v1': expected an "),
        (
            "latency reference --assert barge_in.stop.p95<400ms",
            "assertion 'barge_in.stop.p95<400ms': `live-eval duplex` measures barge_in.stop.p95; "
            "`live-eval latency` does not",
        ),
        ("plan --detect x", "--detect 'x': expected a number"),
        ("plan --detect 1 --metric ves", "expected --from; see live-eval plan --help"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if "--from a" in arguments or "export a" in arguments:
        RunWriter.create(tmp_path / "a", {}).end()
    with pytest.raises(SystemExit) as end:
        main(arguments.split())
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {told}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_missing_judge_or_device_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setitem(
        sys.modules,
        "torch",
        SimpleNamespace(
            __version__="0",
            __spec__=ModuleSpec("torch", None),
            cuda=SimpleNamespace(is_available=lambda: False),
        ),
    )
    for name in ("a", "b"):
        RunWriter.create(tmp_path / name, {}).end()
    missing = "these judges cannot run on this machine; missing:\n  {}: API key (set GEMINI_API_KEY)\n"
    no_cuda = "--device 'cuda': torch 0 finds no CUDA device; use cpu\n"
    for arguments, told in (
        ("arena a b", missing.format("arena")),
        ("audit ves a", missing.format("ves")),
        ("score a --judges ves", missing.format("ves")),
        ("score a --judges dnsmos --device cuda", no_cuda),
        ("score a --device cuda", no_cuda),
        ("run reference --device cuda", no_cuda),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments.split())
        assert (end.value.code, capsys.readouterr().err) == (2, f"error: {told}")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_shows_the_common_flags_and_help_all_every_flag_in_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short, whole = (printed(capsys, "run", flag) for flag in ("--help", "--help-all"))
    assert "--data PATH" in short
    assert "--stall-timeout" not in short
    assert len(short.splitlines()) < 55
    assert "--simultaneous" in short  # the help names several targets
    assert "--stall-timeout DURATION" in whole.partition("\nTurns:\n")[2].partition("\nJudges:\n")[0]
    assert max(map(len, (short + whole).splitlines())) <= 80


def test_help_lists_every_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    listed = [line for line in text.partition("\nRun:\n")[2].splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in listed if line[2:3].isalpha()] == [*COMMANDS]
    assert "Exit status: 0 success" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [("s", "15", 15), ("s", "500ms", 0.5), ("ms", "15", 15), ("ms", "0.5s", 500), ("ms", "1m", 60_000)],
)
def test_a_number_without_a_unit_has_the_unit_of_its_flag(
    unit: Literal["s", "ms"], text: str, value: float
) -> None:
    assert DurationType(unit).convert(text, None, None) == value


def test_old_spellings_work_and_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    options = {name for param in endpoint.params for name in param.opts}
    assert {"--end-silence-ms", "--patience-ms"} <= options
    whole = printed(capsys, "endpoint", "--help-all")
    assert "--end-silence-ms" in whole
    assert "--patience-ms" not in whole
