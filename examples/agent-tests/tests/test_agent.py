from live_eval.pytest_plugin import ms


def test_it_answers_fast_enough(live_eval):
    turn = live_eval.play("question.flac")
    assert turn.voice_to_voice < ms(1200)
    assert turn.lead_silence < ms(200)


def test_it_repeats_what_it_heard(live_eval):
    turn = live_eval.play("question.flac")
    assert turn.text == "(the same again)"
    assert turn.reply().duration_ns > 500_000_000


def test_most_answers_are_fast_enough(live_eval):
    turns = live_eval.play_all(".", repeat=2, concurrency=2)
    assert not turns.failed
    assert turns.meet("voice_to_voice.p50 < 1200ms")
