"""Track the text of a reply whose messages repeat it from its beginning."""

from __future__ import annotations

from live_eval.dialect import Output, ReplyText


class TextSoFar:
    """The text of the present utterance of a reply.

    >>> text = TextSoFar()
    >>> [text.said("reply_1", said)[0].text for said in ("It", "It is")]
    ['It', ' is']
    """

    def __init__(self) -> None:
        self._response_id: str | None = None
        self._text = self._reported = ""

    def said(self, response_id: str, text: str) -> list[Output]:
        """Return the new part of a text so far; after a rewrite, nothing until `over`."""
        self._of(response_id)
        self._text = text or self._text
        if not text.startswith(self._reported) or text == self._reported:
            return []
        added, self._reported = text[len(self._reported) :], text
        return [ReplyText(response_id, added)]

    def added(self, response_id: str, text: str) -> list[Output]:
        """Add a fragment."""
        self._of(response_id)
        return self.said(response_id, self._text + text) if text else []

    def over(self, response_id: str, text: str = "") -> list[Output]:
        """End the utterance with its complete text, by default the last text so far."""
        self._of(response_id)
        text, self._text, self._reported = text or self._text, "", ""
        return [ReplyText(response_id, text, final=True)] if text else []

    def _of(self, response_id: str) -> None:
        if response_id != self._response_id:
            self._response_id, self._text, self._reported = response_id, "", ""
