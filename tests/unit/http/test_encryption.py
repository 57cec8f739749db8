"""Certificates of live-eval's servers."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest
import trustme

from live_eval.errors import UsageError
from live_eval.http.encryption import read_certificate, self_signed


def presented(server: ssl.SSLContext, name: str) -> bytes:
    """Return the certificate, as DER, that a server sends to a client without verification."""
    client = ssl.create_default_context()
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server, server_hostname=name)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (caller, answering, caller):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = caller.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def sha256(der: bytes) -> str:
    return hashlib.sha256(der).digest().hex(":").upper()


def test_a_certificate_is_created_with_the_fingerprint_that_browsers_show() -> None:
    made = self_signed("192.168.1.5", "localhost")
    assert made.made_here
    assert sha256(presented(made.context, "localhost")) == made.fingerprint
    assert self_signed("localhost").fingerprint != made.fingerprint


@pytest.mark.parametrize("apart", [False, True])
def test_the_users_certificate_is_read(tmp_path: Path, apart: bool) -> None:
    own = trustme.CA().issue_cert("studio.example")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    chain = b"".join(pem.bytes() for pem in own.cert_chain_pems)
    certificate.write_bytes(b"bag attributes\n" + (chain if apart else own.private_key_pem.bytes() + chain))
    own.private_key_pem.write_to_path(str(key))
    read = read_certificate(certificate, key if apart else None)
    assert not read.made_here
    assert read.fingerprint == sha256(presented(read.context, "studio.example"))


def test_a_certificate_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    own, other = trustme.CA().issue_cert("a.example"), trustme.CA().issue_cert("b.example")
    certificate, key, nothing = (tmp_path / name for name in ("certificate.pem", "key.pem", "nothing.pem"))
    own.cert_chain_pems[0].write_to_path(str(certificate))
    other.private_key_pem.write_to_path(str(key))
    nothing.write_text("nothing")
    for given in ((certificate, None), (certificate, key), (nothing, None), (tmp_path, None)):
        with pytest.raises(UsageError, match="expected a certificate and its unencrypted private key as PEM"):
            read_certificate(*given)


def test_an_encrypted_key_is_not_asked_for_at_the_terminal(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    own = trustme.CA().issue_cert("a.example")
    key = serialization.load_pem_private_key(own.private_key_pem.bytes(), None)
    protected = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    path = tmp_path / "both.pem"
    path.write_bytes(own.cert_chain_pems[0].bytes() + protected)
    with pytest.raises(UsageError, match="the private key is encrypted"):
        read_certificate(path)
