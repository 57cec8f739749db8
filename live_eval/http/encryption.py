"""Set up TLS for live-eval's own servers, with the user's certificate or a self-signed one."""

from __future__ import annotations

import datetime
import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from live_eval.errors import UsageError
from live_eval.files import read_regular

__all__ = ["Encryption", "read_certificate", "self_signed"]

_VALID = datetime.timedelta(days=7)
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Encryption:
    """The TLS settings of a server.

    Attributes:
        fingerprint: SHA-256 of the server's certificate in pairs of hexadecimal digits, as browsers show it.
        made_here: Whether the certificate is self-signed, so browsers warn about it.
    """

    context: ssl.SSLContext
    fingerprint: str
    made_here: bool


def self_signed(*names: str) -> Encryption:
    """Create a self-signed certificate for these host names and addresses, valid for a week."""
    import trustme

    made = trustme.CA().issue_cert(*names, not_after=datetime.datetime.now(datetime.UTC) + _VALID)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.configure_cert(context)
    return Encryption(context, _fingerprint(made.cert_chain_pems[0].bytes().decode()), made_here=True)


def read_certificate(certificate: Path, key: Path | None = None) -> Encryption:
    """Read the user's certificate.

    Args:
        certificate: PEM file with the server's certificate, then those of its issuers.
        key: PEM file with the private key; None if `certificate` contains it.

    Raises:
        UsageError: A file cannot be read, or the key is missing, is encrypted, or belongs to another
            certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        text = read_regular(certificate, _MOST_BYTES, links=True).decode("ascii", "replace")
        context.load_cert_chain(certificate, key, password=_refuse_to_ask)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        source = certificate if key is None else f"{certificate} and {key}"
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"expected a certificate and its unencrypted private key as PEM in {source}: {why}"
        ) from None
    return Encryption(context, _fingerprint(text[text.index(_BEGIN) :]), made_here=False)


def _fingerprint(pem: str) -> str:
    first = pem[: pem.index(_END) + len(_END)]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).digest().hex(":").upper()


def _refuse_to_ask() -> str:
    """Raise an error instead of letting OpenSSL prompt for a password at the terminal."""
    raise ValueError("the private key is encrypted")
