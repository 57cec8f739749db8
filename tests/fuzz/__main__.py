"""Fuzz with coverage: ``python -m tests.fuzz [TARGET …] --seconds 10``; needs atheris (extra ``fuzz``).

Each target runs in its own process and starts from its seeds and the corpus. New inputs that reach more code
are kept in .fuzz/, and ``--keep`` adds some of them to the corpus. An input that breaks a target is saved to
.fuzz/TARGET/crashes; add it to tests/fuzz/corpus/TARGET with the fix, and every test run repeats it.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_WORK = Path(".fuzz")
_IN_PROCESS = "--in-process"
_LONGEST_INPUT = 16_384
_LONGEST_S = 20
_MOST_MB = 3_000
_LONGEST_KEPT = 2_000
_KEPT_BYTES = 16_000
"""Maximum size of a target's corpus: half a megabyte in total for 31 targets."""


def main() -> None:
    """Fuzz targets one after the other, or a single target in this process with libFuzzer's arguments."""
    if sys.argv[1:2] == [_IN_PROCESS]:
        _fuzz(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=10, help="time for each target")
    parser.add_argument("--keep", action="store_true", help="add what was found to the corpus")
    arguments = parser.parse_args()
    from tests.fuzz.targets import TARGETS

    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"unknown target {', '.join(sorted(unknown))}; expected one of {', '.join(TARGETS)}")
    run = _keep if arguments.keep else functools.partial(_run, seconds=arguments.seconds)
    broken = [name for name in names if not run(name)]
    sys.exit(f"broken: {', '.join(broken)}" if broken else 0)


def _run(name: str, seconds: int) -> bool:
    """Fuzz a target in its own process; return whether it passed."""
    from tests.fuzz.seeds import corpus, seeds

    found, crashes = _WORK / name / "found", _WORK / name / "crashes"
    for folder in (found, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    for data in (*seeds(name), *(path.read_bytes() for path in corpus(name))):
        (found / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    count = _WORK / name / "messages"
    count.unlink(missing_ok=True)
    log = _WORK / name / "log"
    with log.open("wb") as output:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz", _IN_PROCESS, name, str(found)),
                *(f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/", f"-max_len={_LONGEST_INPUT}"),
                *(f"-timeout={_LONGEST_S}", f"-rss_limit_mb={_MOST_MB}", "-print_final_stats=1"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    messages = count.read_text() if count.exists() else "0"
    outcome = "nothing broke" if done.returncode == 0 else f"BROKEN, see {log} and {crashes}"
    sys.stdout.write(f"{name}: {messages} messages, {outcome}\n")
    sys.stdout.flush()
    return done.returncode == 0


def _keep(name: str) -> bool:
    """Add inputs that reached more code to the corpus of a target, up to its size limit."""
    from tests.fuzz.seeds import CORPUS, corpus

    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    room = _KEPT_BYTES - sum(path.stat().st_size for path in corpus(name))
    found = sorted((_WORK / name / "found").glob("*"), key=lambda path: -path.stat().st_size)
    # The longest of the short inputs reach the most code for their size, in few files.
    for path in found:
        size = path.stat().st_size
        if size > min(room, _LONGEST_KEPT):
            continue
        room -= size
        (CORPUS / name / path.name[:16]).write_bytes(path.read_bytes())
    return True


def _instrumented(name: str) -> list[str]:
    """Return the packages whose coverage guides a target; instrumenting all of them takes half a minute."""
    if name == "studio":
        return ["live_eval.studio"]
    if name in os.listdir("tests/conformance/golden"):
        return ["live_eval.clients.dialects", "live_eval.clients.toolkit", "live_eval.session"]
    return [
        "live_eval.audio",
        "live_eval.cassettes",
        "live_eval.clients.transports",
        "live_eval.data",
        "live_eval.impair",
        "live_eval.run.run_file",
        "live_eval.sockets",
    ]


def _fuzz(name: str, flags: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=_instrumented(name), enable_loader_override=False):
        from tests.fuzz.dialect_target import mutate_conversation
        from tests.fuzz.targets import TARGETS, messages_in

        if name == "studio":
            importlib.import_module("tests.fuzz.studio_target")
    from tests.support.bundled import DIALECTS

    target = TARGETS[name]
    counted = _WORK / name / "messages"
    tally = {"inputs": 0, "messages": 0}

    def one_input(data: bytes) -> None:
        target(data)
        tally["inputs"] += 1
        tally["messages"] += messages_in(name, data)
        if tally["inputs"] % 64 == 0:
            counted.write_text(str(tally["messages"]))

    options: dict[str, Any] = {}
    if name in DIALECTS:

        def mutate(data: bytes, max_size: int, seed: int) -> bytes:
            if seed % 3 == 0:
                return bytes(atheris.Mutate(data, max_size))
            return mutate_conversation(name, data, max_size, seed)

        options["custom_mutator"] = mutate
    counted.parent.mkdir(parents=True, exist_ok=True)
    atheris.Setup([sys.argv[0], *flags], one_input, **options)
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    main()
