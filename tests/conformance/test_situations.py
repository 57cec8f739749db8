"""Golden sessions cover every situation that a service supports; unsupported ones are listed here."""

import pytest

from live_eval.cassettes import read_cassette
from live_eval.testing import Situation, situations_in
from tests.support.bundled import DIALECTS, GOLDEN, SPECS, frame_samples

NO_TURN_EVENTS = "media are continuous, without response boundaries"
OWN_BOT = {
    Situation.MANUAL_TURN: "full duplex",
    Situation.RATE_LIMIT: "your own bot has none",
    Situation.CANCELLED: NO_TURN_EVENTS,
    Situation.INCOMPLETE: NO_TURN_EVENTS,
    Situation.SESSION_EXPIRED: "your own bot has no cap",
}
PHONE_LINE = {
    **OWN_BOT,
    Situation.BARGE_IN: NO_TURN_EVENTS,
    Situation.TRANSCRIPT_BEFORE_AUDIO: "it has no transcripts",
    Situation.TRANSCRIPT_AFTER_AUDIO: "it has no transcripts",
    Situation.CLOSE_BEFORE_READY: "it is ready at once",
}
SILENT_PHONE_LINE = {**PHONE_LINE, Situation.ERROR: "it reports no errors"}
MISSING: dict[str, dict[Situation, str]] = {
    "speech_to_speech": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.SESSION_EXPIRED: "it has no cap",
    },
    "unmute": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.INCOMPLETE: "it never says so",
        Situation.SESSION_EXPIRED: "it has no cap",
    },
    "openai_live": {
        Situation.MANUAL_TURN: "full duplex",
        Situation.BARGE_IN: NO_TURN_EVENTS,
        Situation.CANCELLED: NO_TURN_EVENTS,
        Situation.INCOMPLETE: NO_TURN_EVENTS,
    },
    "openai_chat_audio": {
        Situation.CANCELLED: "nothing cancels a request but the end of its connection",
        Situation.CLOSE_BEFORE_READY: "it is ready at once",
        Situation.SESSION_EXPIRED: "it has no sessions",
    },
    "opens2s": {
        Situation.CANCELLED: "nothing cancels a request but the end of its connection",
        Situation.CLOSE_BEFORE_READY: "it is ready at once",
        Situation.SESSION_EXPIRED: "it has no sessions",
        Situation.RATE_LIMIT: "a full worker answers later",
        Situation.INCOMPLETE: "it never says so",
    },
    "moshi": {
        Situation.MANUAL_TURN: "full duplex",
        Situation.RATE_LIMIT: "your own server has none",
        Situation.BARGE_IN: NO_TURN_EVENTS,
        Situation.CANCELLED: NO_TURN_EVENTS,
        Situation.INCOMPLETE: NO_TURN_EVENTS,
    },
    "deepgram": {
        Situation.RATE_LIMIT: "it is refused in the handshake",
        Situation.INCOMPLETE: "it never says so",
        Situation.SESSION_EXPIRED: "no cap is documented",
    },
    "elevenlabs": {
        Situation.MANUAL_TURN: "its turn model is always on",
        Situation.RATE_LIMIT: "none is documented",
        Situation.INCOMPLETE: "it never says so",
    },
    "elevenlabs_webrtc": {
        Situation.MANUAL_TURN: "its turn model is always on",
        Situation.RATE_LIMIT: "none is documented",
        Situation.CANCELLED: NO_TURN_EVENTS,
        Situation.INCOMPLETE: NO_TURN_EVENTS,
    },
    "assemblyai": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.INCOMPLETE: "it never says so",
    },
    "nova_sonic": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.INCOMPLETE: "it never says so",
    },
    "ultravox": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.RATE_LIMIT: "it is refused when the call is created",
        Situation.INCOMPLETE: "it never says so",
        Situation.SESSION_EXPIRED: "it just closes",
    },
    "ultravox_webrtc": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.RATE_LIMIT: "it is refused when the call is created",
        Situation.BARGE_IN: NO_TURN_EVENTS,
        Situation.CANCELLED: NO_TURN_EVENTS,
        Situation.INCOMPLETE: NO_TURN_EVENTS,
        Situation.SESSION_EXPIRED: "it just closes",
    },
    "hume": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.INCOMPLETE: "it never says so",
    },
    "livekit": {**OWN_BOT, Situation.BARGE_IN: NO_TURN_EVENTS},
    "pipecat_webrtc": OWN_BOT,
    "pipecat_websocket": {
        Situation.MANUAL_TURN: "its detector is always on",
        Situation.INCOMPLETE: "it never says so",
        Situation.SESSION_EXPIRED: "your own bot has no cap",
    },
    "twilio": PHONE_LINE,
    "exotel": SILENT_PHONE_LINE,
    "plivo": SILENT_PHONE_LINE,
    "telnyx": SILENT_PHONE_LINE,
    "vonage": SILENT_PHONE_LINE,
    "fastrtc_webrtc": {
        **OWN_BOT,
        Situation.TRANSCRIPT_BEFORE_AUDIO: "it has no transcripts",
        Situation.TRANSCRIPT_AFTER_AUDIO: "it has no transcripts",
    },
}


@pytest.mark.parametrize("name", DIALECTS)
def test_golden_sessions_cover_every_supported_situation_and_match_their_names(name: str) -> None:
    frames = frame_samples(name)
    shown = {
        path.stem: situations_in(DIALECTS[name], read_cassette(path), frame_samples=frames)
        for path in (GOLDEN / name).glob("*.jsonl")
    }
    supported = set(Situation) - set(MISSING.get(name, {}))
    assert set().union(*shown.values()) == supported
    assert [stem for stem in shown if stem in supported and stem not in shown[stem]] == []


def test_the_reference_client_speaks_openais_dialect() -> None:
    assert SPECS["reference"].dialect == SPECS["openai"].dialect
    assert {folder.name for folder in GOLDEN.iterdir()} <= set(DIALECTS)
