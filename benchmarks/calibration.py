"""The harness's measurement error relative to known times, at 1 and 50 concurrent sessions."""

from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.session.event_loop import run

AIMS_MS = {1: 2.0, 50: 5.0}


def main() -> None:
    p99 = {}
    for sessions in AIMS_MS:
        turns = 60 if sessions == 1 else 400
        figures = run(calibrate(CalibrationPlan(sessions=sessions, turns=turns))).as_json()
        print(f"{sessions} at a time, {figures['n']} turns, {figures['failed']} failed")
        for name, errors in figures["errors_ms"].items():
            print(f"  error of {name}: bias {errors['bias']}, p50 {errors['p50']}, p99 {errors['p99']} ms")
        print(f"  lag: p50 {figures['lag_ms']['p50']}, p99 {figures['lag_ms']['p99']} ms")
        p99[sessions] = figures["errors_ms"]["first_byte"]["p99"]
    values = " and ".join(str(p99[sessions]) for sessions in AIMS_MS)
    aims = " and ".join(f"<= {aim:g}" for aim in AIMS_MS.values())
    print(f"calibration: {values} ms first_byte p99 at 1 and 50 sessions (aim {aims})")


if __name__ == "__main__":
    main()
