"""Read a dialect's messages and events in tests."""

from __future__ import annotations

import json
from typing import Any

from live_eval.dialect import (
    EndpointProblem,
    Output,
    Send,
)

__all__ = ["problem", "sent"]


def sent(outputs: Any) -> list[dict[str, Any]]:
    return [json.loads(output.message) for output in outputs if isinstance(output, Send)]


def problem(outputs: list[Output]) -> EndpointProblem:
    (output,) = outputs
    assert isinstance(output, EndpointProblem)
    return output
