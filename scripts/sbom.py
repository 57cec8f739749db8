"""Write build/sbom.cdx.json: packages of live-eval and its extras, with versions and licences (CycloneDX).

Versions come from the current environment, so install every extra first. Development tools are excluded. A
package's scope is "required" for base packages, and "optional" for packages of extras.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from licences import READ, ROOT, licence, normal, packages

FILE = ROOT / "build" / "sbom.cdx.json"


def environment() -> dict[str, Any]:
    """Return the document for all installed packages."""
    command = [
        Path(sys.executable).with_name("cyclonedx-py"),
        "environment",
        "--pyproject",
        ROOT / "pyproject.toml",
    ]
    how = ["--mc-type", "library", "--spec-version", "1.6", "--output-reproducible", "--no-validate"]
    done = subprocess.run([*command, *how, sys.executable], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def shipped(document: dict[str, Any], brought: dict[str, str]) -> dict[str, Any]:
    """Return the document with only the users' packages.

    Args:
        document: SBOM of an environment.
        brought: Packages, each with the extra that installs it; empty for base packages.
    """
    components = []
    for component in document["components"]:
        name = normal(component["name"])
        if name not in brought:
            continue
        extra = brought[name]
        component["scope"] = "optional" if extra else "required"
        if extra:
            component.setdefault("properties", []).append({"name": "live-eval:extra", "value": extra})
        if name in READ or not component.get("licenses"):
            component["licenses"] = [{"license": {"name": licence(name)}}]
        components.append(component)
    kept = {component["bom-ref"] for component in components}
    root = document["metadata"]["component"]["bom-ref"]
    dependencies = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", []) if ref in kept]}
        for each in document["dependencies"]
        if each["ref"] in kept | {root}
    ]
    return {**document, "components": components, "dependencies": dependencies}


def main() -> int:
    """Return the exit status: 1 if the document violates CycloneDX's schema."""
    document = shipped(environment(), packages())
    text = json.dumps(document, indent=2, ensure_ascii=False)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        print(f"expected a CycloneDX 1.6 document: {wrong}", file=sys.stderr)
        return 1
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text + "\n", "utf-8")
    print(f"{FILE.relative_to(ROOT)}: {len(document['components'])} packages")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
