"""Encrypt objects for one recipient, because Ray sends calls in plaintext and may spill them to disk.

Each worker creates a key pair and sends its public key; the driver responds with its own public key. Both
derive a shared key (X25519, HKDF), which never leaves their memory, and encrypt with AES-GCM. Endpoint keys,
recordings and replies therefore never appear in plaintext in Ray's object store, spill files, logs or job
descriptions.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from live_eval.errors import LiveEvalError

__all__ = ["KeyPair", "Seal"]

_NONCE_BYTES = 12
_PURPOSE = b"live-eval cluster, 1"


class KeyPair:
    """One side of the key exchange of a connection."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()
        """Public key (32 bytes) to send to the other side."""

    def seal_with(self, other: bytes) -> Seal:
        """Return the `Seal` shared with the owner of a public key."""
        secret = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        return Seal(HKDF(SHA256(), 32, None, _PURPOSE).derive(secret))


class Seal:
    """A cipher for pickled objects. The two sides must trust each other."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def close(self, value: object) -> bytes:
        """Encrypt an object."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, pickle.dumps(value, pickle.HIGHEST_PROTOCOL), None)

    def open(self, sealed: bytes) -> Any:
        """Decrypt an object from the other side.

        Raises:
            LiveEvalError: The data was not encrypted by the other side, or was modified in transit.
        """
        try:
            return pickle.loads(self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None))
        except InvalidTag:
            raise LiveEvalError("a message through Ray was not encrypted by the other side") from None
