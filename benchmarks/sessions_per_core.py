"""CPU time per second of a session, in both directions with capture and storage, at 100 sessions.

The reference endpoint runs in a separate process and streams replies in real time in 20 ms chunks while the
harness continues to stream 20 ms frames. The main metric is the CPU time of the event loop's thread, which
connects, streams, receives, parses and captures; the CPU time of the whole process, which also decodes,
times, encodes FLAC and stores after each turn, is also printed.
"""

from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.session.event_loop import run

SESSIONS = 100
AIM_MS = 3.6  # a straightforward client without recording: uvloop, orjson, pybase64, garbage collection off


def main() -> None:
    plan = CalibrationPlan(
        sessions=SESSIONS,
        turns=SESSIONS,
        speech_ms=(500, 500),
        delay_ms=(0, 0),
        lead_silence_ms=(0, 0),
        reply_ms=20_000,
        chunk_ms=20,
        cadences=("realtime",),
    )
    result = run(calibrate(plan))
    figures = result.as_json()
    print(f"{figures['n']} turns, {figures['failed']} failed, {result.session_s:.0f} s of sessions")
    print(f"lag p50 {figures['lag_ms']['p50']} ms, p99 {figures['lag_ms']['p99']} ms")
    for name, errors in figures["errors_ms"].items():
        print(f"error of {name}: bias {errors['bias']}, p50 {errors['p50']}, p99 {errors['p99']} ms")
    print(f"with decoding, timing and storing: {result.cpu_ms_per_session_s:.2f} ms/s")
    print(f"sessions_per_core: {result.loop_cpu_ms_per_session_s:.2f} ms/s (aim <= {AIM_MS})")


if __name__ == "__main__":
    main()
