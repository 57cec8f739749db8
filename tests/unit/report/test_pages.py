"""JSON and markup inside pages."""

from __future__ import annotations

import json
import re

import pytest

from live_eval.report.pages import script_json

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 'quoted\""


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "\u2028\u2029", "&lt;", HOSTILE])
def test_json_in_a_page_cannot_end_its_element(text: str) -> None:
    made = script_json({"said": text})
    assert not re.search("[<>&\u2028\u2029]", made)
    assert json.loads(made) == {"said": text}
