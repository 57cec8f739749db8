"""The harness's measurement error relative to known times, at several numbers of concurrent sessions.

The built-in endpoint logs the true times. Arguments select clients other than the default, with shorter
turns: ``python benchmarks/calibration.py twilio livekit --sessions 1 10 --turns 60``. The floor is the
lateness of a bare timer loop during the same minutes.

``--agents twilio livekit`` compares the arrival of replies with the log of a third-party agent instead
(`make strangers` installs them): see `_agents`.
"""

from __future__ import annotations

import os
from dataclasses import replace

import _benchmark
import numpy as np
from _agents import AGENTS
from _agents import measure as measure_agent

from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.session.event_loop import run

AIMS_MS = {1: 2.0, 10: 5.0, 50: 5.0}
DEFAULT_SESSIONS = (1, 50)
SHORT = CalibrationPlan(
    speech_ms=(300, 600), delay_ms=(50, 200), lead_silence_ms=(0, 150), reply_ms=300, floor_wakes=200
)


def measure(plan: CalibrationPlan) -> float:
    """Print the errors of a plan; return the p99 of the first byte or, if it has none, of voice to voice."""
    before = os.getloadavg()[0]
    figures = run(calibrate(plan)).as_json()
    print(
        f"{plan.endpoint}, {plan.sessions} at a time, {figures['n']} turns, {figures['failed']} failed, "
        f"load {before:.1f} to {os.getloadavg()[0]:.1f}, stamps {figures['stamped_turns']}"
    )
    for name, errors in figures["errors_ms"].items():
        print(f"  error of {name}: bias {errors['bias']}, p50 {errors['p50']}, p99 {errors['p99']} ms")
    for name, key in {
        "lag": "lag_ms",
        "bare timer": "floor_ms",
        "arrival stamp": "arrival_ms",
        "sending": "send_lateness_ms",
    }.items():
        if figures[key]:  # continuous media have no chunks whose arrivals could be compared
            print(f"  {name}: p50 {figures[key]['p50']}, p99 {figures[key]['p99']} ms", flush=True)
    errors = figures["errors_ms"]
    return float((errors.get("first_byte") or errors["voice_to_voice"])["p99"])


def compare(endpoint: str, sessions: int, turns: int) -> float:
    """Print the differences from an agent's log; return the p99 of the total."""
    before = os.getloadavg()[0]
    parts, floor, failed = run(measure_agent(endpoint, sessions, turns, _benchmark.ROOT / ".venv-strangers"))
    whole = parts["whole"]
    print(
        f"{endpoint}, {sessions} at a time, {len(whole)} turns, {dict(failed) or 0} failed, "
        f"load {before:.1f} to {os.getloadavg()[0]:.1f}"
    )
    for name, values in {**parts, "bare timer": floor / 1e6}.items():
        if len(values):
            low, middle, high = np.percentile(values, (1, 50, 99))
            print(f"  {name}: p1 {low:.2f}, p50 {middle:.2f}, p99 {high:.2f} ms", flush=True)
    return round(float(np.percentile(whole, 99)), 2)


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("endpoints", nargs="*", help="clients to measure; by default, the built-in one")
    parser.add_argument("--sessions", nargs="*", type=int, default=list(DEFAULT_SESSIONS))
    parser.add_argument("--turns", type=int, help="turns of each; by default, 60, or 400 with many sessions")
    parser.add_argument("--agents", nargs="*", default=(), choices=AGENTS, help="compare with their logs")
    asked = parser.parse_args()
    for agent in asked.agents:
        p99 = [compare(agent, sessions, asked.turns or 60) for sessions in asked.sessions]
        values, numbers = (" and ".join(map(str, each)) for each in (p99, asked.sessions))
        print(f"calibration: {values} ms after {agent}'s log p99 at {numbers} sessions (aim: none)")
    if asked.agents:
        return
    plans = [replace(SHORT, endpoint=endpoint) for endpoint in asked.endpoints] or [CalibrationPlan()]
    for plan in plans:
        p99 = []
        for sessions in asked.sessions:
            turns = asked.turns or (60 if sessions == 1 else 400)
            p99.append(measure(replace(plan, sessions=sessions, turns=turns)))
        aims = " and ".join(f"<= {AIMS_MS.get(sessions, 5.0):g}" for sessions in asked.sessions)
        values, numbers = (" and ".join(map(str, each)) for each in (p99, asked.sessions))
        what = "first_byte" if plan.endpoint == CalibrationPlan().endpoint else plan.endpoint
        print(f"calibration: {values} ms {what} p99 at {numbers} sessions (aim {aims})")


if __name__ == "__main__":
    main()
