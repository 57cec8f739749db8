"""Both voices as waveforms of characters."""

from rich.console import Console, Group

from live_eval.live.updates import Levels
from live_eval.live.voice_strip import VoiceStrip


def rows(strip: VoiceStrip, width: int = 40, *, spectra: bool = False) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        parts = [strip.rows(width, speaks=False)]
        upper, lower = strip.spectrograms(width)
        console.print(Group(*(upper, *parts, lower) if spectra else parts))
    return captured.get().splitlines()


def test_both_voices_and_the_wait_between_them_are_on_one_axis() -> None:
    strip = VoiceStrip()
    for user, reply, waits in ((-6, -90, False), (-90, -90, True), (-90, -30, False)):
        for _ in range(6):
            strip.add(Levels(user, reply), waits=waits)
    assert rows(strip) == [
        "you                    ▇▇▇···     -90 dB",
        "reply                        ▄▄▄  -30 dB",
    ]


def test_a_muted_voice_is_silent_and_the_latest_columns_are_shown() -> None:
    strip = VoiceStrip()
    for _ in range(1_000):
        strip.add(Levels(-3, -3, muted=True), waits=False)
    user, reply = rows(strip)
    assert user.split() == ["muted", "-3", "dB"]
    assert reply.count("█") == 22


def test_spectrograms_are_on_the_axis_of_the_waveforms() -> None:
    strip = VoiceStrip()
    voiced, hissing = (-30.0, -45.0, -60.0, -90.0), (-90.0, -90.0, -60.0, -30.0)
    for levels in (
        Levels(-6, -90, user_bands=voiced),
        Levels(-90, -90),
        Levels(-90, -30, reply_bands=hissing),
        Levels(-6, -90, muted=True, user_bands=voiced),
    ):
        for _ in range(6):
            strip.add(levels, waits=False)
    assert [row[20:31].rstrip() for row in rows(strip, spectra=True)] == [
        "",
        "░░░",
        "▓▓▓",
        "███",
        "▇▇▇",
        "      ▄▄▄",
        "",
        "",
        "      ░░░",
        "      ███",
    ]
