"""Test the turn list of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_eval.studio.turn_index import RowQuery, read_index, read_page


@pytest.mark.parametrize(("offset", "limit"), [(0, 5), (3, 4), (20, 100), (40, 5)])
def test_a_page_read_alone_equals_that_page_of_all_turns(run_folder: Path, offset: int, limit: int) -> None:
    query = RowQuery(choices={}, offset=offset, limit=limit)
    alone = read_page(run_folder, query, most_at_once=0)
    assert alone == read_index(run_folder).select(query)
    assert alone == read_page(run_folder, query)
