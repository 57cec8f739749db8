"""Create the bundled dialogues: recordings with a cue that changes midway, and their manifest.

Run with the ``local`` extra:

    python scripts/make_dialogues.py [--out live_eval/data/sample/dialogues]

The same package versions produce the same files.
"""

from __future__ import annotations

import argparse
import json
import tomllib
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from sample_dsp import BACKGROUNDS, RATE_HZ, STYLES, Say, Sound, mixed

from live_eval.audio import float_to_int16
from live_eval.speech.synthesis import Voice

_SCRIPTS = Path(__file__).with_name("dialogues.toml")
_OUT = Path(__file__).parent.parent / "live_eval" / "data" / "sample" / "dialogues"


def main() -> None:
    """Create the dialogues."""
    parser = argparse.ArgumentParser(description="Make the bundled dialogues.")
    parser.add_argument("--out", type=Path, default=_OUT)
    out: Path = parser.parse_args().out
    dialogues = tomllib.loads(_SCRIPTS.read_text(encoding="utf-8"))["dialogue"]
    out.mkdir(parents=True, exist_ok=True)
    voice = Voice()

    def say(text: str, speed: float) -> Sound:
        return voice.speak(text, speed=speed).samples

    rows = [
        {
            "id": dialogue["id"],
            "topic": dialogue["topic"],
            "language": "en",
            "turns": [
                _turn(out, f"{dialogue['id']}_{number}", turn, say)
                for number, turn in enumerate(dialogue["turns"], 1)
            ],
        }
        for dialogue in dialogues
    ]
    (out / "README.md").write_text(_readme(), encoding="utf-8")
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    (out / "dialogues.jsonl").write_text(text, encoding="utf-8")
    files = list(out.iterdir())
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")


def _turn(out: Path, name: str, turn: dict[str, Any], say: Say) -> dict[str, Any]:
    """Write a turn's recording and, if it has a background, the clean take; return the manifest row."""
    row = {"audio": f"{name}.flac", "text": turn["text"], "cue": turn["say"], "reference_text": turn["reply"]}
    background = BACKGROUNDS.get(turn["say"])
    if background is None:
        sound = STYLES[turn["say"]].speak(turn["text"], say, _noise(name))
    else:
        clean = STYLES["neutral"].speak(turn["text"], say, _noise(name))
        _write(out / f"{name}_clean.flac", clean)
        row["clean_audio"] = f"{name}_clean.flac"
        sound = mixed(clean, background(len(clean), _noise(name)), turn["snr_db"])
    _write(out / f"{name}.flac", sound)
    return row


def _noise(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _write(path: Path, sound: Sound) -> None:
    pcm = float_to_int16(sound)
    soundfile.write(path, pcm, RATE_HZ, format="FLAC", subtype="PCM_16", compression_level=1.0)


def _readme() -> str:
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("hibari-tts", "numpy", "scipy", "soxr")
    )
    return f"""# The bundled dialogues

Made by `scripts/make_dialogues.py` from `scripts/dialogues.toml` with {versions}; do not edit by hand.

Each dialogue has three turns, and how the speaker sounds, or what is behind them, changes midway; the words
do not reveal it. They are written for this project and are under its licence (Apache-2.0). **No human speaks
here**: the voice is the one of the bundled sample, and so are the styles (see the README there). Rain is
mixed at 10 dB under the neutral take in `clean_audio`, sample for sample.

`live-eval run reference --data sample-dialogues` plays them.
"""


if __name__ == "__main__":
    main()
