"""The bundled clients and their golden sessions."""

from collections.abc import Callable
from pathlib import Path

import live_eval.clients.specs
from live_eval.dialect import Dialect, EndpointSettings
from live_eval.registry import ClientSpec, load

__all__ = ["CASSETTES", "DIALECTS", "GOLDEN", "SPECS", "frame_samples"]

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
SPECS = {
    spec.name.replace("-", "_"): spec
    for spec in vars(live_eval.clients.specs).values()
    if isinstance(spec, ClientSpec)
}
"""Every bundled client by the folder of its golden sessions; `reference` uses the dialect of `openai`."""
DIALECTS: dict[str, Callable[[EndpointSettings], Dialect]] = {
    name: load(spec.dialect) for name, spec in SPECS.items() if name != "reference"
}
CASSETTES = [(path.parent.name, path) for path in sorted(GOLDEN.glob("*/*.jsonl"))]


def frame_samples(name: str) -> int:
    """Return the number of samples in a client's frame."""
    return SPECS[name].input_rate_hz * SPECS[name].frame_ms // 1000
