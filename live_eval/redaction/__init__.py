"""Register secrets on input, and remove them from all output."""

from live_eval.redaction.keys import find_key, has_key, key_source, key_variable, recipient_in_words
from live_eval.redaction.redactor import SECRET_FIELDS, SECRETS, Concealer, Redactor, mask_halves
from live_eval.redaction.secret_settings import MASK, host_of, public_settings, public_url

__all__ = [
    "MASK",
    "SECRETS",
    "SECRET_FIELDS",
    "Concealer",
    "Redactor",
    "find_key",
    "has_key",
    "host_of",
    "key_source",
    "key_variable",
    "mask_halves",
    "public_settings",
    "public_url",
    "recipient_in_words",
]
