"""Implement ``live-eval endpoint``."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from live_eval.cli import _options
from live_eval.cli._damage import print_faults
from live_eval.cli._help import Command, Option
from live_eval.cli._options import Decorator
from live_eval.errors import UsageError
from live_eval.redaction import find_key, key_source
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.settings import (
    BOUNDS,
    NEVER,
    TOKEN_VARIABLE,
    AfterStop,
    Cadence,
    IdleRtp,
    OnBackchannel,
    ReferenceSettings,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from live_eval.reference.responders.responder import Replier, Responder
    from live_eval.reference.responders.speech_models import SpeechModels

__all__ = ["TOKEN_VARIABLE", "command"]

_LLM_KEY_VARIABLES = ("LIVE_EVAL_LLM_KEY", "OPENAI_API_KEY")
"""Environment variables with the chat server's key, in order of precedence."""


def _setting(
    flag: str, help_text: str, kind: type[StrEnum] | None = None, aliases: tuple[str, ...] = ()
) -> Decorator:
    """Return the option for a `ReferenceSettings` field: a duration, or a member of `kind`."""
    name = flag[2:].replace("-", "_")
    default = getattr(ReferenceSettings(), name)

    def member(_ctx: click.Context, _option: click.Parameter, value: Any) -> Any:
        if value is None or value == NEVER:
            return value
        return round(value) if kind is None else kind(value)

    return click.option(
        flag,
        cls=Option,
        aliases=aliases,
        panel="Timing and overlaps",
        rare=name != "delay_ms",
        type=_duration(name) if kind is None else click.Choice([each.value for each in kind]),
        default=default if kind is None or default is None else str(default),
        show_default=True,
        callback=member,
        help=help_text,
    )


def _duration(name: str) -> _options.DurationType:
    words = (NEVER,) if name == "stop_ms" else ()
    return _options.DurationType("ms" if name.endswith("_ms") else "s", *BOUNDS[name], words)


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8765,
    show_default=True,
    help="Port; 0 picks a free one.",
)
@click.option(
    "--token-from",
    metavar="SOURCE",
    help="Source of the bearer token that clients must send: file:PATH (mode 600) or "
    f"keyring:SERVICE/NAME. Default: the environment variable {TOKEN_VARIABLE}. Required to bind an address "
    "that other machines can reach.",
)
@click.option(
    "--data",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Also reply to the scripts of this data set; repeatable.",
)
@click.option(
    "--llm-base-url", help="Take replies from this OpenAI-compatible chat server instead of scripts."
)
@click.option(
    "--llm-model", help=f"Model of the chat server. Its key is read from {' or '.join(_LLM_KEY_VARIABLES)}."
)
@click.option(
    "--notices-voice", is_flag=True, help="Comment on the pace, level and pitch of the user's voice."
)
@click.option(
    "--reply-audio",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this recording as the reply to every turn.",
)
@click.option(
    "--reply-onset-sample",
    type=click.IntRange(0),
    help="First audible sample of --reply-audio, at its own rate. Default: detected.",
)
@_setting("--delay-ms", "Delay from the end of speech to the reply.")
@_setting("--lead-silence-ms", "Silence before the reply.")
@_setting("--chunk-ms", "Length of each chunk of reply audio.")
@_setting("--cadence", "Send all chunks immediately, or at the pace of speech.", Cadence)
@_setting("--idle-rtp", "Over WebRTC, between replies: send packets of silence, or none.", IdleRtp)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Load no models: a marked sample ends the speech, and the reply is a synthetic signal.",
)
@_setting("--reply-ms", "Length of the synthetic reply.")
@_setting("--reply-pause-ms", "Silence in the middle of the synthetic reply.")
@_setting("--stall-ms", "Duration of a stall of all sessions, during which no reply begins.")
@_setting("--stall-every-ms", "Time from one stall to the next; 0 for none.")
@_setting(
    "--stop-ms",
    "Time for which a reply continues after an interruption. Default: until the endpoint detects it.",
)
@_setting("--on-backchannel", "Reaction to a backchannel during a reply.", OnBackchannel)
@_setting("--backchannel-ms", "Longest speech that counts as a backchannel.")
@_setting("--after-stop", "After a stop, answer the user or resume the reply.", AfterStop)
@_setting(
    "--end-silence-ms",
    "Silence that ends the user's turn, regardless of the client's settings.",
    aliases=("--patience-ms",),
)
@_setting("--greeting-ms", "Greet the user this long after the session opens. Default: no greeting.")
@_setting("--talk-over-ms", "Reply this long after the user begins to speak, without waiting for the end.")
@click.option(
    "--fault",
    "fault",
    metavar="NAME[:VALUE][@WHEN]",
    multiple=True,
    help="Inject this fault; repeatable. WHEN is open, speech, reply or a time such as 1.2s; "
    "turn=N, first=N, every=N or share=P%.",
)
@click.option(
    "--fault-seed", default=0, show_default=True, help="Seed for choosing the sessions that share=P% affects."
)
@click.option("--list-faults", is_flag=True, help="List the faults and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --list-faults: print JSON with stable keys.")
@click.option(
    "--truth",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Log each turn's true times to this file.",
)
@_setting("--session-limit-s", "Maximum length of a session.")
@_setting("--notice-s", "Time from the announcement of a session's end (Gemini's goAway) to the end.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Number of threads that run models.",
)
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Stop when standard input ends.")
def command(
    host: str,
    port: int,
    token_from: str | None,
    roots: tuple[Path, ...],
    llm_base_url: str | None,
    llm_model: str | None,
    notices_voice: bool,
    reply_audio: Path | None,
    reply_onset_sample: int | None,
    truth: Path | None,
    workers: int,
    until_stdin_ends: bool,
    fault: tuple[str, ...],
    fault_seed: int,
    list_faults: bool,
    as_json: bool,
    **timing: Any,
) -> None:
    """Serve the built-in reference endpoint.

    It detects and transcribes speech (voice detector, Whisper), picks a reply (from the scripts of the sample
    and of --data, or from a chat server) and speaks it, in the client's dialect. A session's URL can override
    timing, overlap behaviour and faults: ?delay_ms=200&stop_ms=300&fault=silent. Values for --endpoint and
    --base-url:

    \b
    openai, openai-beta, openai-live    ws://127.0.0.1:8765/v1
    assemblyai, deepgram, elevenlabs    ws://127.0.0.1:8765/v1
    ultravox                            ws://127.0.0.1:8765/api
    gemini-live, moshi                  ws://127.0.0.1:8765
    openai-webrtc, elevenlabs-webrtc    http://127.0.0.1:8765/v1
    ultravox-webrtc                     http://127.0.0.1:8765/api
    pipecat-webrtc, fastrtc-webrtc      http://127.0.0.1:8765
    livekit, opens2s                    http://127.0.0.1:8765
    twilio                              ws://127.0.0.1:8765/media-stream

    Once ready, it prints one line of JSON with the port and these addresses.

    Examples:

    \b
      live-eval endpoint --delay-ms 200
      live-eval endpoint --fault reset:1.2s@share=10%
    """
    if as_json and not list_faults:
        raise UsageError("--json requires --list-faults")
    if list_faults:
        print_faults(as_json=as_json)
        return
    from live_eval.http.hosts import is_loopback
    from live_eval.reference import REFERENCE
    from live_eval.reference.emulation import address, emulated_clients
    from live_eval.reference.server.app import Endpoint, serve
    from live_eval.reference.server.host import SessionHost

    settings = ReferenceSettings(**timing, faults=parse_faults(fault, fault_seed))
    try:
        token = find_key(TOKEN_VARIABLE if token_from is None else key_source(token_from))
    except ValueError as error:
        raise UsageError(f"--token-from: {error}") from None
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host} is reachable from other machines: set {TOKEN_VARIABLE} (or --token-from) first"
        )
    if (llm_base_url is None) != (llm_model is None):
        raise UsageError("--llm-base-url and --llm-model must be given together")
    if roots and llm_base_url is not None:
        raise UsageError("--data cannot be combined with --llm-base-url")
    if reply_audio is not None or settings.calibrate:
        given = {"--data": roots, "--llm-base-url": llm_base_url, "--notices-voice": notices_voice}
        for flag in (name for name, value in given.items() if value):
            raise UsageError(f"{flag} cannot be combined with --reply-audio or --calibrate")
    if reply_onset_sample is not None and reply_audio is None:
        raise UsageError("--reply-onset-sample requires --reply-audio")

    from live_eval.reference.truth import TruthFile
    from live_eval.session.event_loop import run, undisturbed

    def announce(bound: int) -> None:
        where = f"[{host}]" if ":" in host else host
        secure = settings.faults.has(FaultName.TLS)
        addresses = {name: address(name, where, bound, secure=secure) for name in emulated_clients()}
        line = {"ready": True, "host": host, "port": bound, "base_url": addresses[REFERENCE]}
        click.echo(json.dumps(line | {"addresses": addresses}))

    with ExitStack() as stack:
        speech_models = _speech_models(settings, workers)
        responder = _responder(
            settings,
            partial(_replier, roots, llm_base_url, llm_model, notices_voice=notices_voice),
            reply_audio,
            reply_onset_sample,
            speech_models,
            workers,
        )
        truth_file = TruthFile(truth) if truth is not None else None
        if truth_file is not None:
            stack.callback(truth_file.close)
        shared = SessionHost(settings, speech_models, responder, token=token, truth=truth_file)
        if settings.calibrate:
            stack.enter_context(undisturbed())
        parent = sys.stdin.fileno() if until_stdin_ends else None
        run(serve(Endpoint(shared), host, port, announce, until_end_of=parent))


def _speech_models(settings: ReferenceSettings, workers: int) -> SpeechModels:
    """Load the speech models; print a note if no recogniser is installed."""
    from live_eval.reference.responders.speech_models import SpeechModels

    if settings.calibrate:
        return SpeechModels(
            None, "this endpoint is calibrating and has not loaded a recogniser", workers=workers
        )
    from live_eval.speech import recognition

    missing = recognition.available()
    if missing is not None:
        click.echo(
            f"note: no speech recognition ({missing}): turns are detected but not transcribed", err=True
        )
    recogniser = recognition.Recogniser(short_windows=True) if missing is None else None
    speech_models = SpeechModels(recogniser, missing or "", workers=workers)
    speech_models.warm_up()
    return speech_models


def _responder(
    settings: ReferenceSettings,
    replier: Callable[[], Replier],
    reply_audio: Path | None,
    reply_onset_sample: int | None,
    speech_models: SpeechModels,
    workers: int,
) -> Responder:
    """Create the responder; print a note if no voice is installed."""
    from live_eval.reference.responders.responder import CascadeResponder, FileResponder, ToneResponder
    from live_eval.speech import synthesis as voice

    if reply_audio is not None:
        return FileResponder(reply_audio, reply_onset_sample)
    if settings.calibrate:
        return ToneResponder()
    missing = voice.available()
    if missing is not None:
        click.echo(f"note: no voice ({missing}): replies are recordings or a tone", err=True)
    cascade = CascadeResponder(
        replier(),
        voice.Voice() if missing is None else None,
        hears_words=speech_models.lacking is None,
        workers=workers,
    )
    cascade.warm_up()
    return cascade


def _replier(
    roots: tuple[Path, ...], llm_base_url: str | None, llm_model: str | None, *, notices_voice: bool
) -> Replier:
    """Return a replier that uses a chat server, or the scripts of the sample data and of `roots`."""
    from live_eval.data import DataOptions, load, locate, sample_path
    from live_eval.reference.responders.responder import ChatReplier, ScriptReplier, scripts_of
    from live_eval.reference.responders.voice_aware import NoticingReplier

    replier: Replier
    if llm_base_url is not None and llm_model is not None:
        key = next(filter(None, map(find_key, _LLM_KEY_VARIABLES)), None)
        replier = ChatReplier(llm_base_url, llm_model, key)
    else:
        paths = [*(locate(str(root)) for root in roots), sample_path()]
        options = DataOptions(neutral_rule=False)
        lines = [line for path in paths for line in scripts_of(load(path, options).cases)]
        if not lines:
            raise UsageError("found no script with a reply in " + ", ".join(map(str, paths)))
        replier = ScriptReplier(lines)
    return NoticingReplier(replier) if notices_voice else replier
