"""Run one turn with the real client of each dialect under every fault of the reference endpoint.

The endpoint injects the fault into the first session only, so a turn that is retried is captured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile

from live_eval.dialect import TransportKind
from live_eval.errors import FailureKind, UsageError
from live_eval.impair import parse
from live_eval.recording import RunReader, RunWriter
from live_eval.reference.emulation import address
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.faults.catalogue import FAULTS, FaultName, Moment
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.registry import client, load
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import undisturbed
from tests.support.chat import chat_endpoint
from tests.support.serving import reference

_GROUPS = {
    "websocket": (
        "openai",
        "openai-beta",
        "openai-live",
        "gemini-live",
        "deepgram",
        "elevenlabs",
        "assemblyai",
        "ultravox",
        "moshi",
    ),
    "webrtc": ("openai-webrtc", "pipecat-webrtc", "fastrtc-webrtc"),
    "room": ("livekit", "elevenlabs-webrtc", "ultravox-webrtc"),
}

DIALECTS = FAULTS[FaultName.REFUSE].dialects
"""Every dialect that the endpoint implements."""
CHAT = "openai-chat-audio"
TOXIC_DIALECTS = (*(each for each in DIALECTS if each not in (*_GROUPS["room"], "opens2s")), CHAT)
"""The dialects for toxics: with one over HTTP added, and without rooms, which reject network impairments."""

_VARIANTS: dict[FaultName, Sequence[str]] = {
    FaultName.REFUSE: ("refuse:3s",),
    FaultName.SLOW_ACCEPT: ("slow_accept:20s",),
    FaultName.TLS: ("tls:untrusted", "tls:alert", "tls:plain", "tls:reset"),
    FaultName.RESET: (*(f"reset:{moment}" for moment in Moment), "reset:300ms"),
    FaultName.STATUS: tuple(f"status:{status}" for status in (401, 403, 404, 429, 500, 502)),
    FaultName.RATE_LIMIT: ("rate_limit", "rate_limit:1s"),
    FaultName.UNAVAILABLE: ("unavailable", "unavailable:1s"),
    FaultName.SLOW_ANSWER: ("slow_answer:20s",),
    FaultName.SESSION_CAP: ("session_cap:500ms",),
    FaultName.CLOSE: (
        *(f"close:{code}" for code in (1000, 1001, 1006, 1008, 1009, 1011, 4000)),
        *("close@open", "close@speech", "close@300ms"),
    ),
    FaultName.STALL: ("stall", "stall:500ms"),
    FaultName.MALFORMED: ("malformed", "malformed@open", "malformed@speech"),
    FaultName.HUGE: ("huge", "huge:1MB"),
}
TOXICS = (
    *("delay=150ms", "delay=100ms,jitter=30ms", "bandwidth=2mbps", "chunk=1kB,gap=5ms", "slow_close=1s"),
    *("down.limit=5kB", "down.timeout=1s", "reset=500ms"),
)
"""Toxiproxy's seven toxics as impairments.

Chunks of 400 bytes would saturate the line: 20 ms of audio at 24 kHz is a message of 1.4 kB, and the backlog
would never clear.
"""

AT_A_TIME = 8
"""Number of cells measured concurrently, on two cores."""
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"
"""The markers around the table of a page."""

_OUTCOMES = Path(__file__).parent / "outcomes"
_ROW = re.compile(r"^\| (`.+`) \| ([\w, -]+) \| (.+) \|$", re.MULTILINE)
_LOSSY = "moshi"
_LIMITS = {"connect_timeout": 6, "reply_timeout": 6, "stall_timeout": 4, "max_reply": 8}
_RETRIES = 3
_CELL_S = 60


@dataclass(frozen=True, slots=True)
class Cell:
    """The outcome of a turn with a fault.

    Args:
        fault: The fault.
        dialect: The dialect.
        kind: The failure of the first attempt; None if there was none.
        message: The failure's message.
        attempts: Number of attempts.
        captured: Whether the last attempt captured the turn.
        warnings: Kinds of the last attempt's warnings.
    """

    fault: str
    dialect: str
    kind: FailureKind | None
    message: str
    attempts: int
    captured: bool
    warnings: tuple[FailureKind, ...]

    def __str__(self) -> str:
        warned = "".join(f" + {kind}" for kind in sorted(set(self.warnings)))
        if self.kind is None:
            return f"captured{warned}"
        return f"{self.kind}, {'retried' if self.attempts > 1 else 'not retried'}, " + (
            f"captured{warned}" if self.captured else "failed"
        )


def cells(dialects: Iterable[str] = DIALECTS) -> Iterator[tuple[str, str]]:
    """Yield every fault with every dialect that it applies to."""
    for name, what in FAULTS.items():
        for text in _VARIANTS.get(name, (name.value,)):
            (fault,) = parse_faults(text)
            for dialect in dialects:
                on_track = client(dialect).transport_kind is TransportKind.WEBRTC
                early = fault.moment in (Moment.ACCEPT, Moment.REQUEST)
                if name is FaultName.CLOSE and on_track and text not in ("close:1011", "close@speech"):
                    continue  # it has no close codes, and its session opens with the user's first audio
                if dialect in what.dialects or (name is FaultName.RESET and early):
                    yield text, dialect


def toxic_cells(dialects: Iterable[str] = TOXIC_DIALECTS) -> Iterator[tuple[str, str]]:
    """Yield every toxic with every dialect whose transport supports it."""
    for spec in TOXICS:
        for dialect in dialects:
            with contextlib.suppress(UsageError):
                parse(spec).check_transport(client(dialect).transport_kind.value)
                yield spec, dialect


def write_data(folder: Path, dialect: str) -> Path:
    """Write a data set with one recording whose end the endpoint detects exactly; return its manifest."""
    spec = client(dialect)
    lossy = dialect == _LOSSY or spec.transport_kind is TransportKind.WEBRTC
    speech = calibration_speech(500, spec.input_rate_hz, spec.frame_ms, lossy=lossy)
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / "speech.wav", speech.audio.int16(), spec.input_rate_hz)
    end_ms = speech.voice_end_sample * 1000 / spec.input_rate_hz
    row = {"id": "speech", "audio": "speech.wav", "text": "ahem", "onset_ms": 0}
    manifest = folder / "manifest.jsonl"
    manifest.write_text(json.dumps(row | {"voice_end_ms": end_ms, "words_end_ms": end_ms}), "utf-8")
    return manifest


async def meet(fault: str, dialect: str, folder: Path, impairment: str = "") -> Cell:
    """Run one turn with an endpoint whose first session, or connection, has a fault.

    Args:
        fault: The fault; empty for none.
        dialect: The dialect.
        folder: Output folder.
        impairment: The impairment of the traffic of all attempts.

    Raises:
        TimeoutError: The turn did not end.
    """
    manifest = await asyncio.to_thread(write_data, folder / "data", dialect)
    once = fault if not fault or parse_faults(fault).has(FaultName.REFUSE) else f"{fault}@first=1"
    faults = parse_faults(once)
    async with AsyncExitStack() as stack:
        settings: dict[str, Any] = {"calibrate": True, "reply_ms": 600, "delay_ms": 50, "faults": faults}
        if dialect == CHAT:
            place = f"http://{await stack.enter_async_context(chat_endpoint())}/v1"
        else:
            host, _, port = (await stack.enter_async_context(reference(**settings))).partition(":")
            secure = faults.has(FaultName.TLS)
            place = await asyncio.to_thread(address, dialect, host, int(port), secure=secure)
        await stack.enter_async_context(asyncio.timeout(_CELL_S))
        config: dict[str, Any] = {
            "endpoint": {"name": dialect, "base_url": place, "transcription_model": "none"},
            "data": {"path": str(manifest)},
            "turns": {
                "mode": client(dialect).turn_modes[0],
                "retries": _RETRIES,
                "word_times": "off",
                **_LIMITS,
            },
            "impair": {"specs": [impairment] if impairment else []},
        }
        plan, writer = await asyncio.to_thread(_begun, config, folder / "run")
        await run_plan(plan, writer, folder / "run", Observer(), stop=StopSignals())
        return await asyncio.to_thread(_ended, writer, folder / "run", fault or impairment, dialect)


def _begun(config: dict[str, Any], out: Path) -> tuple[Plan, RunWriter]:
    plan = make_plan(validate(config))
    return plan, RunWriter.create(out, plan.manifest())


def _ended(writer: RunWriter, out: Path, fault: str, dialect: str) -> Cell:
    writer.end()
    writer.close()
    with RunReader.open(out) as reader:
        (turn,) = reader.turns()
        failed = min(reader.failures(), key=lambda each: each.attempt, default=None)
    first = failed.failure if failed is not None and failed.attempt == 1 else None
    return Cell(
        fault,
        dialect,
        first.kind if first is not None else None,
        first.message if first is not None else "",
        turn.attempt,
        turn.failure is None,
        tuple(warning.kind for warning in turn.warnings),
    )


def _load(dialects: Iterable[str]) -> None:
    """Import the clients one after the other: pytest's import hook is not thread-safe."""
    for dialect in dialects:
        spec = client(dialect)
        load(spec.dialect)
        load(spec.transport)


async def measured(
    chosen: Sequence[tuple[str, str]], folder: Path, *, at_a_time: int = AT_A_TIME
) -> list[Cell]:
    """Measure cells of faults or toxics concurrently."""
    slots = asyncio.Semaphore(at_a_time)
    await asyncio.to_thread(_load, {dialect for _, dialect in chosen})

    async def one(fault: str, dialect: str) -> Cell:
        async with slots:
            place = folder / dialect / re.sub(r"\W", "-", fault)
            if fault in TOXICS:
                return await meet("", dialect, place, fault)
            return await meet(fault, dialect, place)

    with undisturbed():  # each run collects garbage before it starts, which would delay the others
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(one(*cell)) for cell in chosen]
        return [task.result() for task in found]


def documented(page: str, of: Collection[str] = DIALECTS) -> dict[tuple[str, str], str]:
    """Return the outcome of each cell as documented on a page of outcomes/.

    Args:
        page: File of the page.
        of: All dialects.
    """
    stated = (_OUTCOMES / page).read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    return {
        (fault, dialect): result
        for injected, dialects, result in _ROW.findall(stated)
        for fault in re.findall(r"`([^`]+)`", injected)
        for name in dialects.split(", ")
        for dialect in (of if name == "all" else _GROUPS.get(name, (name,)))
    }


def table(found: Sequence[Cell], of: Collection[str] = DIALECTS) -> str:
    """Return cells as a table in Markdown: a row for each result and group of dialects.

    Args:
        found: The cells.
        of: All dialects.
    """
    lines = ["| injected | dialects | first attempt, retried, outcome |", "|---|---|---|"]
    dialects: dict[tuple[str, str], list[str]] = {}
    for cell in found:
        dialects.setdefault((cell.fault, str(cell)), []).append(cell.dialect)
    faults: dict[tuple[str, str], list[str]] = {}
    for (fault, result), names in dialects.items():
        faults.setdefault((_grouped(names, of), result), []).append(f"`{fault}`")
    lines += [f"| {', '.join(alike)} | {names} | {result} |" for (names, result), alike in faults.items()]
    return "\n".join(lines)


def _grouped(dialects: Sequence[str], of: Collection[str]) -> str:
    """Return the names of dialects; complete groups are abbreviated by the group's name."""
    if len(dialects) == len(of):
        return "all"
    complete = [name for name, group in _GROUPS.items() if set(group) <= set(dialects)]
    rest = [name for name in dialects if not any(name in _GROUPS[group] for group in complete)]
    return ", ".join([*complete, *rest])
