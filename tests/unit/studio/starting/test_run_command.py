"""The command that is equivalent to a page's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.errors import UsageError
from live_eval.studio.starting.run_command import arguments_of
from live_eval.studio.talking.talk_settings import TalkSettings

OUT = Path("/runs/new")


DATA = ["sample", "sample-dialogues", "/data/echomind"]


def arguments(given: dict[str, Any], **addresses: str) -> list[str]:
    settings = TalkSettings(addresses=addresses)
    return [
        *arguments_of(given, ["sample", "sample-dialogues", "/data/echomind"], settings.address),
        f"--out={OUT}",
    ]


def test_the_settings_become_flags() -> None:
    given = {
        "endpoint": {"name": "openai", "model": "m", "voice": "--out=/etc"},
        "data": {"path": "/data/echomind", "limit": 3, "cues": ["breath", "sigh"]},
        "task": {"name": "conversation", "prompt": "basic"},
        "impair": {"specs": ["noise=10dB,noise_type=babble"]},
        "turns": {"mode": "manual", "concurrency": 2, "repeat": 5},
        "judges": {"names": ["bleu", "dnsmos"]},
    }
    assert arguments(given, openai="ws://127.0.0.1:9/v1") == [
        *("run", "openai", "--base-url=ws://127.0.0.1:9/v1", "--model=m", "--voice=--out=/etc"),
        *("--data=/data/echomind", "--limit=3", "--cue=breath,sigh", "--task=conversation", "--prompt=basic"),
        "--impair=noise=10dB,noise_type=babble",
        *("--turn-mode=manual", "--concurrency=2", "--repeat=5", "--judges=bleu,dnsmos", "--out=/runs/new"),
    ]
    assert arguments({"judges": {"names": []}})[2:] == ["--judges=none", "--out=/runs/new"]
    normal = {"data": {"limit": 5.0}, "turns": {"mode": None}, "endpoint": {"model": None}}
    assert arguments(normal)[2:] == ["--limit=5", "--out=/runs/new"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endpoint": {"name": "openai", "base_url": "ws://evil"}}, "endpoint: expected an object with only"),
        ({"endpoint": {"key_variable": "HOME"}}, "endpoint: expected an object with only"),
        ({"endpoint": {"name": "--estimate"}}, "unknown endpoint '--estimate'"),
        ({"endpoint": {"name": "/etc/run.toml"}}, "unknown endpoint '/etc/run.toml'"),
        ({"endpoint": {"name": 3}}, "endpoint.name"),
        ({"endpoint": []}, "endpoint: expected an object with only"),
        ({"impair": {"specs": ["noise=9dB,noise_type=/etc"]}}, "noise_type may be pink, white, babble"),
        ({"impair": {"specs": ["room=/etc/passwd"]}}, "room is only for the command line"),
        ({"impair": {"specs": ["nois=9dB"]}}, "did you mean"),
        ({"data": {"path": "/etc"}}, "data.path: expected one of sample, sample-dialogues, /data/echomind"),
        ({"data": {"limit": 0}}, "data.limit"),
        ({"data": {"audio_root": "/etc"}}, "data: expected an object with only"),
        ({"task": {"prompt": "/etc/passwd"}}, "task.prompt: expected one of no, basic"),
        ({"task": {"prompt": "no,/etc/passwd"}}, "task.prompt: expected one of no, basic"),
        ({"task": {"name": "dance"}}, "task.name"),
        ({"turns": {"concurrency": 10**6}}, "turns.concurrency"),
        ({"turns": {"mode": "x"}}, "turns.mode"),
        ({"turns": {"repeat": 10**18}}, "turns.repeat: expected at most 1000"),
        ({"judges": {"options": {"ves.llm_base_url": "x"}}}, "judges: expected an object with only"),
        ({"endpoint": {"model": "a\0b"}}, "endpoint.model: expected at most 1000 printable characters"),
        ({"endpoint": {"voice": "a\nb"}}, "endpoint.voice: expected at most 1000 printable characters"),
        ({"endpoint": {"model": "m" * 1001}}, "endpoint.model: expected at most 1000 printable characters"),
        ({"judges": {"names": [","]}}, "unknown judge ','"),
        (
            {"output": {"out": "/etc"}},
            "expected the tables data, endpoint, impair, judges, task, turns, got 'output'",
        ),
    ],
)
def test_a_page_can_choose_no_address_no_file_and_no_flag(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        arguments(given)
    assert message in str(error.value)


def test_the_flags_exist() -> None:
    text = CliRunner().invoke(cli, ["run", "--help-all"], terminal_width=200).output
    for flag in ("--base-url", "--data", "--limit", "--cue", "--prompt", "--turn-mode", "--judges", "--out"):
        assert flag in text
