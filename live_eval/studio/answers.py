"""Build the studio's responses: JSON computed in a thread, and errors with status, kind and message."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from live_eval.errors import LiveEvalError, SchemaVersionError, StoreError, UsageError
from live_eval.redaction import SECRETS

__all__ = ["BusyError", "NotFoundError", "answer", "as_file", "explain_errors", "json_text", "refusal"]

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_OWN_PAGE = "X-Live-Eval-Page"  # sent by api.js
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_log = logging.getLogger(__name__)


class BusyError(LiveEvalError):
    """The studio runs one operation of this kind at a time, and another is in progress."""


class NotFoundError(LiveEvalError):
    """The requested object does not exist (any more)."""


async def answer(make: Callable[..., Any], *arguments: Any, within: Executor | None = None) -> web.Response:
    """Call a function in a thread, by default any of the loop's, and respond with its result as JSON."""
    loop = asyncio.get_running_loop()
    body = await loop.run_in_executor(within, lambda: json_text(make(*arguments)).encode())
    return web.Response(body=body, content_type="application/json")


def json_text(value: Any) -> str:
    """Serialise a value as JSON without secrets; non-finite numbers become null."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY, default=str).decode()
    except orjson.JSONEncodeError:  # a file name that is not UTF-8
        value = _in_unicode(value)
        text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY, default=str).decode()
    return orjson.dumps(SECRETS.values(value), default=str).decode() if SECRETS.suspects(text) else text


def as_file(name: str) -> dict[str, str]:
    """Return headers that make browsers save a response as a file with this name."""
    return {"Content-Disposition": f'attachment; filename="{_UNSAFE.sub("_", name)}"'}


def _in_unicode(value: Any) -> Any:
    """Replace surrogates in all strings of a JSON value."""
    match value:
        case str() | Path():
            return str(value).encode(errors="replace").decode()
        case dict():
            return {_in_unicode(key): _in_unicode(each) for key, each in value.items()}
        case list() | tuple():
            return [_in_unicode(each) for each in value]
        case _:
            return value


def refusal(request: web.Request, status: int, kind: str, message: str) -> web.Response:
    """Return an error response: JSON for the API, plain text for other paths.

    The studio's own pages get the status 200, unless the studio has failed, because browsers print other
    statuses to the console, where they would look like bugs.
    """
    if request.path.startswith("/api/"):
        body = json_text({"error": {"kind": kind, "message": message}})
        expected = status < 500 and _OWN_PAGE in request.headers
        return web.Response(status=200 if expected else status, text=body, content_type="application/json")
    return web.Response(status=status, text=f"{SECRETS.text(message)}\n")


@web.middleware
async def explain_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Convert errors to responses with status, kind and message.

    The kinds are ``missing`` (404), ``request`` (400), ``busy`` (409), ``schema`` (409: written by another
    version), ``unreadable`` (422: damaged, or deleted meanwhile), ``failed`` (500), and those of HTTP errors.
    """
    try:
        return await handler(request)
    except NotFoundError as error:
        return refusal(request, 404, "missing", str(error))
    except BusyError as error:
        return refusal(request, 409, "busy", str(error))
    except UsageError as error:
        return refusal(request, 400, "request", str(error))
    except SchemaVersionError as error:
        return refusal(request, 409, "schema", str(error))
    except (StoreError, OSError) as error:
        return refusal(request, 422, "unreadable", str(error))
    except LiveEvalError as error:
        return refusal(request, 500, "failed", str(error))
    except web.HTTPException as error:
        return refusal(request, error.status, "http", error.reason)
    except Exception:
        _log.exception("%s %s: a bug in live-eval", request.method, request.path)
        return refusal(request, 500, "failed", "a bug in live-eval; see the terminal for details")
