"""Hostile endpoints: outcome, duration and memory of `live-eval run` against each.

Each endpoint is a loopback server that performs one attack without end, or up to its limit. The harness runs
in a separate process, with one case and one attempt; ``live-eval score`` calls the judge's endpoint. The
output for each attack contains the failure kinds (for the judge, the reason), the duration in seconds, and
the increase of the harness's peak resident memory over a run with an ordinary endpoint.

``python benchmarks/hostile_endpoints.py ping_flood`` runs a single attack; ``--list`` lists all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import _benchmark
import _endpoint_attacks as attacks
import numpy as np
import soundfile
from _endpoint_attacks import Attack, Client
from _peak_memory import Measured, measured

from live_eval.recording import RunReader
from live_eval.recording.scores import ScoreReader

AIM_MB = 400
"""Maximum memory in excess of an ordinary run."""
WITHIN_S = 90.0
RATE_HZ = 24_000
LIMITS = ("--reply-timeout", "5", "--stall-timeout", "5", "--max-reply", "20", "--connect-timeout", "10")

WEBSOCKET = (
    attacks.ordinary,
    attacks.endless_headers,
    attacks.endless_header_line,
    attacks.endless_refusal,
    attacks.long_refusal,
    attacks.deflate_unasked,
    attacks.deflated_frames,
    attacks.huge_message,
    attacks.large_messages,
    attacks.endless_fragments,
    attacks.tiny_fragments,
    attacks.empty_fragments,
    attacks.ping_flood,
    attacks.unread_pongs,
    attacks.never_reads,
    attacks.deep_json,
    attacks.nested_json,
    attacks.many_values,
    attacks.far_too_many_values,
    attacks.endless_text,
    attacks.endless_words,
    attacks.endless_sentences,
    attacks.endless_audio,
    attacks.endless_samples,
    attacks.endless_input_transcript,
    attacks.endless_types,
    attacks.endless_events,
    attacks.endless_errors,
    attacks.endless_speech,
    attacks.endless_responses,
)
HTTP = (
    attacks.http_endless_answer,
    attacks.http_endless_events,
    attacks.http_endless_event,
    attacks.http_endless_line,
    attacks.http_bomb,
    attacks.http_bomb_refusal,
    attacks.http_endless_headers,
    attacks.http_trickle,
)
WEBRTC = (
    attacks.sdp_endless,
    attacks.sdp_candidates,
    attacks.sdp_sections,
    attacks.sdp_codecs,
    attacks.channel_flood,
    attacks.rtp_flood,
)
JUDGES = {
    f"judge_{attack.__name__.removeprefix('http_')}": attack
    for attack in (
        attacks.http_endless_answer,
        attacks.http_bomb,
        attacks.http_bomb_refusal,
        attacks.http_endless_headers,
        attacks.http_trickle,
    )
}
DIALECTS: dict[Attack, tuple[str, ...]] = {
    **dict.fromkeys(WEBSOCKET, ("openai", "ws", "--turn-mode", "manual")),
    **dict.fromkeys(HTTP, ("openai-chat-audio", "http")),
    **dict.fromkeys(WEBRTC, ("openai-webrtc", "http", "--turn-mode", "manual")),
}


@contextlib.asynccontextmanager
async def serving(attack: Attack) -> AsyncIterator[int]:
    """Serve an attack and yield its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        client = Client(reader, writer)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await client.request()
            await attack(client)
        if client.peer is not None:
            await client.peer.close()
        writer.transport.abort()

    async with await asyncio.start_server(met, "127.0.0.1", 0, limit=1 << 20) as server:
        yield server.sockets[0].getsockname()[1]
        for task in tasks:
            task.cancel()


def recording(folder: Path) -> Path:
    """Write a data set with one short recording."""
    sound = 0.1 * np.sin(np.arange(RATE_HZ // 2) / 8)
    soundfile.write(folder / "a.wav", sound, RATE_HZ)
    row = {"id": "a", "audio": "a.wav", "text": "ahem", "topic": "x", "cue": "happy"}
    data = folder / "data.jsonl"
    data.write_text(json.dumps(row), "utf-8")
    return data


async def run_against(attack: Attack, folder: Path) -> tuple[Measured, str]:
    """Run the harness against an attack; return the outcomes of the process and the turn."""
    data, out = recording(folder), folder / "run"
    dialect, scheme, *mode = DIALECTS[attack]
    async with serving(attack) as port:
        command = (
            *(sys.executable, "-m", "live_eval", "run", "--endpoint", dialect, *mode),
            *("--base-url", f"{scheme}://127.0.0.1:{port}/v1", "--data", str(data), "--out", str(out)),
            *("--retries", "0", "--patience", "0", "--word-times", "off", "--judges", "none", *LIMITS),
        )
        found = await measured(command, within_s=WITHIN_S)
    return found, outcome(out, found)


async def score_against(attack: Attack, folder: Path) -> tuple[Measured, str]:
    """Score an ordinary run against an attack; return the outcomes of scoring and the turn."""
    await run_against(attacks.ordinary, folder)
    async with serving(attack) as port:
        command = (
            *(sys.executable, "-m", "live_eval", "score", str(folder / "run"), "--judges", "rubric"),
            *("--llm-base-url", f"http://127.0.0.1:{port}/v1", "--llm-model", "m"),
            *("--llm-attempts", "2", "--llm-timeout", "5"),
        )
        found = await measured(command, within_s=WITHIN_S)
    if found.status is None:
        return found, "KILLED"
    with ScoreReader.open(folder / "run") as scores:
        statuses = [row.status for row in scores.read()]
    return found, ", ".join(statuses) or "not scored"


def outcome(out: Path, found: Measured) -> str:
    """Return the failure kinds of a run's turns."""
    if found.status is None:
        return "KILLED"
    with RunReader.open(out) as run:
        kinds = [str(turn.failure.kind) if turn.failure is not None else "ok" for turn in run.turns()]
    return ", ".join(kinds) or f"NO TURN, status {found.status}"


KNOWN = {attack.__name__: attack for attack in DIALECTS} | JUDGES
"""The attacks by name; a judge's endpoint performs some of them too."""


async def main(names: Sequence[str], *, verbose: bool) -> None:
    worst_mb = usual_mb = 0.0
    for name in dict.fromkeys(("ordinary", *(names or KNOWN))):
        attack, against = KNOWN[name], score_against if name in JUDGES else run_against
        with TemporaryDirectory() as folder:
            found, what = await against(attack, Path(folder))
        if attack is attacks.ordinary:
            usual_mb = found.peak_mb
        beyond_mb = found.peak_mb - usual_mb
        worst_mb = max(worst_mb, beyond_mb)
        print(f"{name:26} {what:24} {found.seconds:6.1f} s  +{beyond_mb:6.0f} MB", flush=True)
        if verbose:
            print(found.output)
    print(
        f"hostile endpoints: at most {worst_mb:.0f} MB beyond an ordinary run ({usual_mb:.0f} MB); "
        f"aim {AIM_MB}"
    )


if __name__ == "__main__":
    parser = _benchmark.parser(__doc__)
    parser.add_argument("names", nargs="*", help="the endpoints; all of them if none is named")
    parser.add_argument("--verbose", action="store_true", help="print what the harness prints")
    parser.add_argument("--list", action="store_true", help="list the endpoints")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(KNOWN))
    else:
        asyncio.run(main(chosen.names, verbose=chosen.verbose))
