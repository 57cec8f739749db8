from live_eval.pytest_plugin import ms


def test_it_stops_when_it_is_interrupted(live_eval):
    for turn in live_eval.play_probe("barge-in", conditions=["400 ms", "900 ms"], concurrency=2):
        assert turn.barge_in_stop < ms(1000)


def test_it_waits_through_a_short_pause(live_eval):
    trials = live_eval.play_probe("pause", conditions=["200 ms"], repeat=2, concurrency=2)
    assert trials.meet("pause.passed >= 90%")


def test_it_keeps_talking_after_a_backchannel(live_eval):
    trials = live_eval.play_probe("backchannel", conditions=["400 ms"], repeat=2, concurrency=2)
    assert trials.meet("backchannel.passed >= 90%")
