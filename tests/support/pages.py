"""Parse a page roughly as a browser does."""

from __future__ import annotations

import json
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "img", "path"}


class Page(HTMLParser):
    """A page: elements with their attributes, scripts and styles with their text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles = ""
        self.text = ""
        self._open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unbalanced.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif inside == "style":
            self.styles += data
        else:
            self.text += data

    def rows(self) -> list[dict[str, str | None]]:
        return [
            attributes for tag, attributes in self.elements if tag == "tr" and "data-status" in attributes
        ]

    def details(self) -> list[dict[str, object]]:
        return [
            json.loads(text)
            for attributes, text in self.scripts
            if attributes.get("type") == "application/json" and "id" not in attributes
        ]
