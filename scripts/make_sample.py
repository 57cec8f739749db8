"""Create the bundled sample: our scripts in EchoMind's layout, from a synthetic voice and signal processing.

Run with the ``local`` extra:

    python scripts/make_sample.py [--out live_eval/data/sample] [--check]

The same package versions produce the same files. ``--check`` transcribes the existing files with the offline
recogniser and prints the duration, level and word error rate of each.
"""

from __future__ import annotations

import argparse
import json
import tomllib
import zlib
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import soundfile
from numpy.typing import NDArray
from sample_dsp import BACKGROUNDS, RATE_HZ, STYLES, Say, Sound, level_db, lowered, mixed
from whisper_normalizer.english import EnglishTextNormalizer

from live_eval.audio import Audio, float_to_int16, read_audio
from live_eval.data import DataOptions, load
from live_eval.speech.recognition import Recogniser
from live_eval.speech.synthesis import Voice
from live_eval.types import Variant

_SCRIPTS = Path(__file__).with_name("sample.toml")
_QUESTIONS = Path(__file__).with_name("sample_questions.toml")
_OUT = Path(__file__).parent.parent / "live_eval" / "data" / "sample"
_MAX_BYTES = 4_000_000
# Replies are references for text and tone: three bits fewer halve their size, at a −83 dBFS noise floor.
_REPLY_STEP = 8


def main() -> None:
    """Create the sample, or check the existing sample."""
    parser = argparse.ArgumentParser(description="Make the bundled sample.")
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("--check", action="store_true", help="transcribe the existing files, make nothing")
    parser.add_argument("--questions", action="store_true", help="write the questions alone")
    arguments = parser.parse_args()
    if arguments.check:
        _check(arguments.out)
        return
    scripts = tomllib.loads(_SCRIPTS.read_text(encoding="utf-8"))["script"]
    write_questions(arguments.out, scripts)
    if arguments.questions:
        return
    voice = Voice()

    def say(text: str, speed: float) -> Sound:
        return voice.speak(text, speed=speed).samples

    _make_part(arguments.out, "synthesis", scripts, say, say)
    _make_part(arguments.out, "human", [each for each in scripts if each.get("human")], lowered(say), say)
    (arguments.out / "README.md").write_text(_readme(), encoding="utf-8")
    files = [path for path in arguments.out.glob("data_*/**/*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size:,} bytes")
    if size >= _MAX_BYTES:
        parser.error(f"the sample must stay under {_MAX_BYTES:,} bytes")


def _make_part(out: Path, part: str, scripts: list[dict[str, Any]], say: Say, reply: Say) -> None:
    """Write one of the layout's two folders."""
    folder = out / f"data_{part}"
    entries = []
    for script in scripts:
        entry: dict[str, Any] = {
            "case_id": script["id"],
            "script": script["text"],
            "spoken_info": script["target"]["say"],
            "topic": script["topic"],
        }
        names = {
            variant: f"{script['folder']}/{script['id']}_{script['folder']}_{script['topic']}_{variant}"
            for variant in Variant
        }
        for variant in Variant:
            style, name = script[variant], names[variant]
            neutral = f"{names[Variant.NEUTRAL]}.flac"
            sound = _speak(script["text"], style, say, neutral, name)
            _write(folder / "audio" / f"{name}.flac", float_to_int16(sound))
            _write(folder / "audio" / f"{name}_response.flac", _coarse(reply(style["reply"], 1.0)))
            info = {
                "input_audio_file": f"{name}.flac",
                "response_text": style["reply"],
                "response_audio_file": f"{name}_response.flac",
                "spoken_info": style["say"],
            }
            if "snr_db" in style:
                info |= {"clean_audio_file": neutral, "snr_db": style["snr_db"]}
            entry[f"{variant}_audio_info"] = {f"{variant}_{key}": value for key, value in info.items()}
        entries.append(entry)
    text = json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
    (folder / f"script_info_{part}.json").write_text(text, encoding="utf-8")


def write_questions(out: Path, scripts: list[dict[str, Any]]) -> None:
    """Write the questions for both folders."""
    by_id = {script["id"]: script for script in scripts}
    for task, questions in tomllib.loads(_QUESTIONS.read_text(encoding="utf-8")).items():
        entries = _placed(questions, by_id)
        for part in ("synthesis", "human"):
            folder = out / f"data_{part}" / "MCQ"
            folder.mkdir(parents=True, exist_ok=True)
            asked = [
                entry
                for entry, question in zip(entries, questions, strict=True)
                if part == "synthesis" or question.get("human")
            ]
            text = json.dumps(asked, indent=2, ensure_ascii=False) + "\n"
            (folder / f"{task}.json").write_text(text, encoding="utf-8")


def _placed(questions: list[dict[str, Any]], scripts: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the questions in EchoMind's format, with answer keys distributed evenly over the positions."""
    entries = []
    keys: Counter[str] = Counter()
    for number, question in enumerate(questions):
        script_id, variant = question["about"].split("/")
        script = scripts[script_id]
        options = sorted([question["right"], *question["wrong"]], reverse=True)  # "Yes" before "No"
        if set(options) != {"Yes", "No"}:
            place = min(range(len(options)), key=lambda place: (keys["ABCD"[place]], (place - number) % 4))
            options = list(question["wrong"])
            options.insert(place, question["right"])
        answer = "ABCD"[options.index(question["right"])]
        keys[answer] += 1
        entries.append(
            {
                "question_id": f"q{number:02d}_{script_id}_{variant}",
                "case_id": script_id,
                "question_type": question["type"],
                "script": script["text"],
                "spoken_info": script[variant]["say"],
                "topic": script["topic"],
                "audio_dir": script["folder"],
                "audio_name": f"{script_id}_{script['folder']}_{script['topic']}_{variant}.flac",
                "question": question["ask"],
                "options_text": "\n".join(
                    f"{letter}. {option}" for letter, option in zip("ABCD", options, strict=False)
                ),
                "answer": answer,
            }
        )
    return entries


def _speak(text: str, style: dict[str, Any], say: Say, neutral: str, name: str) -> Sound:
    """Speak a text in a style; a background is mixed into the neutral recording."""
    background = BACKGROUNDS.get(style["say"])
    if background is None:
        return STYLES[style["say"]].speak(text, say, _noise(name))
    clean = STYLES["neutral"].speak(text, say, _noise(neutral.removesuffix(".flac")))
    return mixed(clean, background(len(clean), _noise(name)), style["snr_db"])


def _noise(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _coarse(sound: Sound) -> NDArray[np.int16]:
    return np.asarray(np.rint(float_to_int16(sound) / _REPLY_STEP) * _REPLY_STEP, np.int16)


def _write(path: Path, pcm: NDArray[np.int16]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, pcm, RATE_HZ, format="FLAC", subtype="PCM_16", compression_level=1.0)


def _readme() -> str:
    processing = "\n".join(f"| {label} | {style.does} |" for label, style in STYLES.items())
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("hibari-tts", "numpy", "scipy", "soxr")
    )
    return f"""# The bundled sample

Made by `scripts/make_sample.py` from `scripts/sample.toml` and `scripts/sample_questions.toml` with
{versions}; do not edit by hand.

Scripts and replies are written for this project and are under its licence (Apache-2.0). **No human speaks
here.** Every voice is the synthetic voice "heart" of hibari-tts (Apache-2.0), and every style is signal
processing: enough to distinguish the styles by ear and to try every part of live-eval, not enough to judge a
model's empathy. For that, use EchoMind.

The layout is EchoMind's. `data_human` repeats two of the scripts in the layout of the human recordings; its
speaker is the same synthetic voice with pitch and formants down by 0.8.

| label | processing |
|---|---|
{processing}

Backgrounds (rain, wind, an alarm clock) are synthetic too. They are mixed under the neutral recording of the
same script at the SNR in `{{variant}}_snr_db`: the level of the audible speech (RMS of its 10 ms frames above
−60 dBFS) over the background's RMS. `{{variant}}_clean_audio_file` names that recording; the mix has its
length, and its speech is the same sample for sample.

`MCQ` contains questions of every type of EchoMind about these recordings. The correct answer follows from how
a recording was made. Nobody laughs in the sample, and only one voice speaks at a time, so the answer to
questions about laughter and about several people is "no".

Recordings are FLAC, 24 kHz, mono; the spoken replies are quantised to 13 bits to keep the sample small.
"""


def _check(folder: Path) -> None:
    """Transcribe every recording and reply, and print duration, level and word error rate."""
    recogniser, normalise = Recogniser(), EnglishTextNormalizer()
    print(f"{'case':28} {'cue':18} {'s':>5} {'dBFS':>6} {'peak':>5} {'WER':>5}")
    errors: dict[str, list[float]] = {"recordings": [], "replies": []}
    for case in load(folder, DataOptions(neutral_rule=False)).cases:
        spoken = [("recordings", case.audio_path, case.text)]
        if case.reference_audio_path is not None:
            spoken.append(("replies", case.reference_audio_path, case.reference_text))
        for kind, path, text in spoken:
            audio: Audio = read_audio(path).audio
            heard = recogniser.transcribe(audio, words=False).text
            error = jiwer.wer(normalise(text or ""), normalise(heard))
            errors[kind].append(error)
            peak, name = np.abs(audio.samples).max(), (case.cue.attribute or "") if case.cue else ""
            label = case.case_id if kind == "recordings" else "  its reply"
            seconds = audio.duration_ns / 1e9
            print(
                f"{label:28} {name:18} {seconds:5.2f} {level_db(audio.samples):6.1f} {peak:5.2f} {error:5.2f}"
            )
            if error:
                print(f"    expected: {text}\n    heard:    {heard}")
    for kind, each in errors.items():
        print(f"{kind}: {len(each)}, mean WER {np.mean(each):.3f}, {sum(map(bool, each))} with errors")


if __name__ == "__main__":
    main()
