import pytest

from live_eval.errors import UsageError
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.settings import BOUNDS, NEVER, Cadence, IdleRtp, ReferenceSettings


def test_a_sessions_url_overrides_settings() -> None:
    settings = ReferenceSettings(delay_ms=5, faults=parse_faults("silent"))
    changed = settings.overridden({"delay_ms": "200", "cadence": "realtime", "fault": "endless"})
    assert (changed.delay_ms, changed.cadence) == (200, Cadence.REALTIME)
    assert str(changed.faults) == "endless"
    assert changed.chunk_ms == settings.chunk_ms
    assert not settings.overridden({"fault": "none"}).faults
    named = settings.overridden({"idle_rtp": "none", "label": "turn-7"})
    assert (named.idle_rtp, named.label) == (IdleRtp.NONE, "turn-7")
    assert settings.overridden({}) == settings


def test_a_url_does_not_change_faults_of_the_tcp_connection() -> None:
    settings = ReferenceSettings(faults=parse_faults("slow_accept:1s,silent"))
    assert str(settings.overridden({"fault": "stall"}).faults) == "slow_accept:1000ms,stall"
    with pytest.raises(UsageError, match="set it with --fault"):
        settings.overridden({"fault": "reset:accept"})


def test_any_overlap_time_scripts_the_overlap() -> None:
    plain = ReferenceSettings()
    assert not plain.scripted
    assert plain.overridden({"stop_ms": "never", "on_backchannel": "ignore"}).stop_ms == NEVER
    assert plain.overridden({"stop_ms": "250", "after_stop": "resume"}).stop_ms == 250
    for name in ("stop_ms", "end_silence_ms", "talk_over_ms"):
        assert plain.overridden({name: "20"}).scripted


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"delay": "1"}, "expected one of: delay_ms"),
        ({"calibrate": "1"}, "'calibrate'"),
        ({"delay_ms": "soon"}, "expected 0 to 600000, got 'soon'"),
        ({"delay_ms": "-1"}, "delay_ms"),
        ({"delay_ms": "٣"}, "delay_ms"),
        ({"chunk_ms": "0"}, "chunk_ms: expected 1 to 10000, got '0'"),
        ({"cadence": "slow"}, r"expected burst\|realtime, got 'slow'"),
        ({"fault": "all"}, "expected one of refuse, slow_accept"),
        ({"idle_rtp": "noise"}, r"expected silence\|none"),
        ({"stall_ms": "5000"}, r"stall_ms: expected less than stall_every_ms \(0\), got 5000"),
        ({"stall_ms": "20", "stall_every_ms": "20"}, "stall_ms: expected less than stall_every_ms"),
        ({"stop_ms": "soon"}, "never.0 to 60000, got 'soon'"),
        ({"stop_ms": "60001"}, r"stop_ms: expected never\|0 to 60000"),
        ({"end_silence_ms": "never"}, "end_silence_ms: expected 20"),
        ({"after_stop": "resume", "stop_ms": "never"}, "after_stop=resume: expected stop_ms in milliseconds"),
        ({"on_backchannel": "ignore"}, "on_backchannel=ignore: expected stop_ms=never or at least"),
        ({"on_backchannel": "ignore", "stop_ms": "999"}, r"backchannel_ms \(1000\), got 999"),
        ({"label": "x" * 101}, "label: expected at most 100 characters, got 101"),
    ],
)
def test_an_invalid_override_is_refused_with_the_allowed_values(query: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        ReferenceSettings().overridden(query)


@pytest.mark.parametrize("name", list(BOUNDS))
def test_values_outside_the_bounds_are_refused(name: str) -> None:
    least, most = BOUNDS[name]
    for value in (least - 1, most + 1):
        with pytest.raises(UsageError, match=name):
            ReferenceSettings(**{name: value})  # type: ignore[arg-type]  # all of these are whole numbers


def test_replies_due_in_a_stall_start_at_its_end() -> None:
    settings = ReferenceSettings().overridden({"stall_ms": "200", "stall_every_ms": "1000"})
    for at_ms, then_ms in ((0, 200), (199, 200), (200, 200), (999, 999), (7_000, 7_200), (7_250, 7_250)):
        assert settings.after_stall(at_ms * 1_000_000) == then_ms * 1_000_000
    assert ReferenceSettings().after_stall(5) == 5
