"""The language of impairments and faults, and the page that lists the impairments."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.impair import PARAMETERS, BoundedValue, ValueUnit
from live_eval.impair.language import items


@pytest.mark.parametrize(
    ("value", "text", "read", "shown"),
    [
        (BoundedValue(ValueUnit.MILLISECONDS, 0, 5_000), "1.2 S", 1_200.0, "1200ms"),
        (BoundedValue(ValueUnit.BYTES, 0, 1e9), "1.5MB", 1_500_000.0, "1500000B"),
        (BoundedValue(ValueUnit.DECIBELS, -20, 20), "-.5dB", -0.5, "-0.5dB"),
        (BoundedValue(ValueUnit.PACKETS, 1, 9), "2.5", 2.5, "2.5"),
        (BoundedValue(ValueUnit.NUMBER, 1, 9), "2", 2.0, "2"),
        (BoundedValue(ValueUnit.MILLISECONDS, 0, 9, ("open",)), "open", "open", "open"),
        (BoundedValue(ValueUnit.PATH), __file__, __file__, __file__),
    ],
)
def test_a_value_is_read_and_shown(value: BoundedValue, text: str, read: float | str, shown: str) -> None:
    assert value.read(text) == read
    assert value.shown(read) == shown
    assert value.read(shown) == read


@given(st.sampled_from(ValueUnit), st.text(st.sampled_from("0123456789.+-%msdBkKpP e"), max_size=20))
def test_any_text_is_a_value_within_its_bounds_or_refused(unit: ValueUnit, text: str) -> None:
    value = BoundedValue(unit, -1, 1_000)
    try:
        read = value.read(text)
    except ValueError:
        return
    assert isinstance(read, str) or -1 <= read <= 1_000


def test_items_are_separated_by_commas() -> None:
    assert [item.name for item in items(["a=1, b:2,,c ", "d"])] == ["a", "b", "c", "d"]
    [item] = items("a=/x@y:z=1")
    assert (item.value, item.conditions) == ("/x@y:z=1", ())
    [item] = items("a@first=2@open", conditional=True)
    assert (item.value, item.conditions) == (None, ("first=2", "open"))


def test_the_reference_has_every_impairment() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/impairments.md").read_text("utf-8")
    assert [name for name in PARAMETERS if f"`{name}`" not in page] == []
