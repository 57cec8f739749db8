"""The syntax of impairments, and rejected input."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.errors import UsageError
from live_eval.impair import ImpairedLayer, parse


@pytest.mark.parametrize(
    ("specs", "canonical"),
    [
        (["loss=5%,burst=3", "delay=0.08s"], "loss=5%,burst=3,delay=80ms"),
        (["down.loss=5%", "up.loss=5%"], "loss=5%"),
        (["down.delay=10ms,up.delay=20ms"], "up.delay=20ms,down.delay=10ms"),
        (["noise = 10 dB"], "noise=10dB,noise_type=pink"),
        (["reverb=600ms"], "reverb=600ms,direct=0dB"),
        (["bandwidth=1.5Mbps"], "bandwidth=1500kbps"),
        (["chunk=1kB,gap=5ms"], "chunk=1000B,gap=5ms"),
        (["loss:5%", "noise:10dB"], "loss=5%,noise=10dB,noise_type=pink"),
        ([], ""),
    ],
)
def test_parsing_the_canonical_form_gives_the_same_impairment(specs: list[str], canonical: str) -> None:
    impairment = parse(specs, 7)
    assert str(impairment) == canonical
    assert parse(str(impairment), 7) == impairment
    assert pickle.loads(pickle.dumps(impairment)) == impairment
    assert bool(impairment) is bool(specs)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("los=5%", "unknown name 'los'"),
        ("left.loss=5%", "unknown name 'left.loss'"),
        ("loss", "expected loss=0% to 100%, got ''"),
        ("loss=5", "expected loss=0% to 100%, got '5' (did you mean loss=5%?)"),
        ("noise=babble", "got 'babble'; for example noise=25dB,noise_type=babble"),
        ("loss=101%", "0% to 100%"),
        ("loss=nan%", "0% to 100%"),
        ("delay=5dB", "0ms to 10000ms"),
        ("loss=5%@first=1", "'5%@first=1'"),
        ("burst=3", "up.burst requires loss"),
        ("loss=80%,burst=2", "expected at most 66.7%"),
        ("loss=5%,up.loss=4%", "up.loss is repeated"),
        ("up.noise=10dB", "no direction"),
        ("noise=10dB,noise_type=brown", "pink|white|babble|FOLDER"),
        ("room=none.wav", "no such path: none.wav"),
        ("reverb=1s,room=" + __file__, "conflict: use only one of them"),
        ("stall=2s,every=1s", "shorter than every=1000ms"),
        ("g711=opus", "mulaw|alaw"),
    ],
)
def test_errors_name_the_invalid_part(spec: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(spec)
    assert said in str(caught.value)


@given(st.text(st.sampled_from("lossupdwnie.=,%0159mskB -"), max_size=30))
def test_parsing_raises_only_usage_errors(text: str) -> None:
    try:
        impairment = parse(text)
    except UsageError:
        return
    assert parse(str(impairment)) == impairment


@pytest.mark.parametrize(
    ("spec", "kind", "said"),
    [
        ("loss=1%", "websocket", "TCP repairs"),
        ("stall=1s,every=9s", "webrtc", "sends datagrams"),
        ("loss=1%", "http", "TCP repairs"),
        ("stall=1s,every=9s", "http2", "the vendor's SDK owns the connection"),
        ("bandwidth=64kbps,queue=1s", "websocket", "'queue' is not supported over websocket"),
    ],
)
def test_damage_impossible_on_a_transport_is_refused(spec: str, kind: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(spec).check_transport(kind)


@pytest.mark.parametrize("kind", ["websocket", "webrtc", "http"])
def test_audio_can_be_damaged_on_any_transport(kind: str) -> None:
    parse("noise=10dB,g711=alaw").check_transport(kind)


def test_each_session_has_its_own_seed() -> None:
    impairment = parse("loss=5%", 1)
    seeds = {impairment.for_session(name).seed for name in ("a", "b", "a")}
    assert len(seeds) == 2
    assert impairment.for_session("a") != parse("loss=5%", 2).for_session("a")


def test_signalling_gets_only_stream_damage() -> None:
    whole = parse("loss=5%,delay=80ms,chunk=100B,gap=5ms,down.reset=1s,noise=10dB", seed=7)
    whole.check_transport("webrtc")
    part = whole.on(ImpairedLayer.SIGNALLING)
    assert (str(part), part.seed) == ("delay=80ms,chunk=100B,gap=5ms,down.reset=1000ms", 7)
    assert not parse("loss=5%").on(ImpairedLayer.SIGNALLING)
