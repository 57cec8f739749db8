import json
from collections import Counter
from pathlib import Path

import pytest

from live_eval.data import ATTRIBUTES, FINE_DIMENSIONS, NEUTRAL, Attribute, cue_of
from live_eval.types import CoarseDimension

SPEAKER, PARALINGUISTIC, ENVIRONMENT = CoarseDimension

# The attributes that the benchmark's METRICS lists under each coarse dimension.
LISTED = {
    SPEAKER: "male, female, child, adult, elderly",
    PARALINGUISTIC: (
        "hoarse voice, vocal fatigue, breathless, sobbing, happy, sad, surprise, angry, fear, disgust, "
        "shout, whisper, fast pace, slow pace, cough, sigh, laughter, yawn, moan"
    ),
    ENVIRONMENT: (
        "wind, thunderstorm, rain, driving a car, subway, sea waves, playing basketball, applause, "
        "crowd cheering, crowd chatter, children playing, children speaking, dog barking, alarm clock, "
        "ringtone, happy music, funny music, sad music, exciting music, angry music, vehicle honking"
    ),
}


@pytest.mark.parametrize("coarse", list(CoarseDimension))
def test_the_attributes_are_exactly_those_listed(coarse: CoarseDimension) -> None:
    there = {name for name, attribute in ATTRIBUTES.items() if attribute.coarse is coarse}
    assert there == set(LISTED[coarse].split(", "))


def test_there_are_twelve_fine_dimensions_and_each_is_used() -> None:
    assert len(FINE_DIMENSIONS) == 12
    assert {attribute.fine for attribute in ATTRIBUTES.values()} == set(FINE_DIMENSIONS)
    assert Counter(FINE_DIMENSIONS.values()) == {SPEAKER: 2, PARALINGUISTIC: 5, ENVIRONMENT: 5}


@pytest.mark.parametrize("attribute", ATTRIBUTES.values(), ids=list(ATTRIBUTES))
def test_name_phrase_and_aliases_name_the_attribute_in_any_case(attribute: Attribute) -> None:
    for label in (attribute.name, attribute.phrase, *attribute.aliases):
        for spelled in (label, label.upper(), f"  {label.replace(' ', '   ')} ", label.replace(" ", "_")):
            cue = cue_of(spelled)
            assert cue.attribute == attribute.name
            assert (cue.fine, cue.coarse) == (attribute.fine, attribute.coarse)


@pytest.mark.parametrize(
    ("phrase", "attribute"),
    [
        ("happy-toned expressive voice", "happy"),
        ("sound of happy music", "happy music"),
        ("sound of wind blowing", "wind"),
        ("breathless sound / gasping sound / heavy breathing sound", "breathless"),
        ("heavy breathing sound", "breathless"),
        ("gasping sound/heavy breathing", "breathless"),
        ("cough voice", "cough"),
        ("laughter sound", "laughter"),
        ("Hoarse voice", "hoarse voice"),
        ("sound of dog(s) barking", "dog barking"),
        ("Sound of dogs barking", "dog barking"),
        ("sound of crowd’s chatter", "crowd chatter"),
        ("sound of crowd's chatter", "crowd chatter"),
        ("sound of raining", "rain"),
        ("sound of rain", "rain"),
        ("sound of thunderstorm and thunder", "thunderstorm"),
        ("fast speaking pace", "fast pace"),
        ("children speaking", "children speaking"),
        ("child", "child"),
    ],
)
def test_phrases_of_the_data(phrase: str, attribute: str) -> None:
    cue = cue_of(phrase)
    assert cue.attribute == attribute
    assert cue.phrase == phrase


@pytest.mark.parametrize("phrase", ["sound of a waterfall", "voice", "", "happy / sad", "unhappy", "music"])
def test_unknown_labels_are_not_guessed(phrase: str) -> None:
    cue = cue_of(phrase)
    assert (cue.attribute, cue.fine, cue.coarse) == (None, None, None)
    assert cue.phrase == phrase


@pytest.mark.parametrize("phrase", ["neutral", "Neutral voice", "NEUTRAL"])
def test_neutral_has_a_name_but_no_dimension(phrase: str) -> None:
    cue = cue_of(phrase)
    assert (cue.attribute, cue.fine, cue.coarse) == (NEUTRAL.attribute, None, None)


@pytest.mark.echomind
def test_every_phrase_of_the_demonstration_data_is_known(echomind_demo: Path) -> None:
    folder = echomind_demo / "data_synthesis"
    entries = json.loads((folder / "script_info_synthesis.json").read_text("utf-8"))
    phrases = {entry["spoken_info"] for entry in entries}
    for entry in entries:
        phrases |= {
            entry[f"{v}_audio_info"][f"{v}_spoken_info"] for v in ("target", "neutral", "alternative")
        }
    for name in ("understanding", "reasoning"):
        questions = json.loads((folder / "MCQ" / f"{name}.json").read_text("utf-8"))
        phrases |= {question["spoken_info"] for question in questions}
    assert len(phrases) > 10
    assert [phrase for phrase in phrases if cue_of(phrase).attribute is None] == []
