"""Sign Twilio's requests to an agent and parse the TwiML in a webhook's response.

Sources: https://www.twilio.com/docs/usage/security and https://www.twilio.com/docs/voice/twiml/stream.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from xml.etree import ElementTree

import pybase64

from live_eval.dialect import EndpointSettings

_TWIML_CHARACTERS = 64_000  # Twilio's limit
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)


def stream_in(twiml: str) -> tuple[str, Mapping[str, str]]:
    """Return the stream's address and parameters from a TwiML document.

    Raises:
        ValueError: The document is not TwiML, or does not connect the call to a stream.
    """
    begin = " ".join(twiml.split())[:200]
    plain = _COMMENT.sub("", twiml)
    if len(twiml) > _TWIML_CHARACTERS or "<!" in plain:  # "<!" may declare entities
        raise ValueError(f"got {len(twiml)} characters, or a declaration such as DOCTYPE: {begin}")
    try:
        root = ElementTree.fromstring(plain)
    except ElementTree.ParseError as error:
        raise ValueError(f"got invalid XML ({error}): {begin or '(nothing)'}") from None
    stream = root.find("Connect/Stream") if root.tag == "Response" else None
    if stream is None or not stream.get("url"):
        verbs = ", ".join(f"<{verb.tag}>" for verb in root) or "none"
        one_way = (
            " (<Start><Stream> is one-way: the agent cannot speak)"
            if root.find("Start/Stream") is not None
            else ""
        )
        raise ValueError(f"got <{root.tag}> with the verbs {verbs}{one_way}")
    named = {each.get("name", ""): each.get("value", "") for each in stream.iter("Parameter")}
    return stream.get("url", ""), named


def signed(settings: EndpointSettings, url: str, form: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the signature header of a request; empty without a key."""
    if settings.key is None:
        return {}
    text = url + "".join(f"{name}{value}" for name, value in sorted((form or {}).items()))
    digest = hmac.digest(settings.key.reveal().encode(), text.encode(), hashlib.sha1)
    return {"X-Twilio-Signature": pybase64.b64encode_as_string(digest)}
