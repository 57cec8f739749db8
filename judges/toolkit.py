"""Public helpers for judges, in this package or another.

A judge needs no base class: write a class with the methods of `live_eval.judging.LocalJudge`, `LlmJudge` or
`PairwiseJudge`, describe it in a `JudgeSpec`, and test it with `live_eval.testing.check_judge`. These helpers
apply the same rules as the other judges:

* excluded replies: `unrateable` (audio), `unreadable` (words), `incomparable` (words of both replies);
* text: `reply_and_reference`, `other_language`, `refused`;
* score details: `recording_detail`;
* judges that call a model: `PromptTemplate`, `quoted`, `delivery_of`, `text_part`, `sound_part`,
  `read_object`, `read_rating`, `read_words`;
* judges that use torch, which is imported when these helpers are called: `torch_device`,
  `batches_by_length`, `padded`, `exact_inference`.

`live_eval.weights` finds, hashes and downloads weights.
"""

from live_eval.judges._asking import (
    LONGEST_SENT_S,
    SENT_RATE_HZ,
    PromptTemplate,
    UnreadableError,
    delivery_of,
    read_object,
    read_rating,
    read_words,
    sound_part,
    text_part,
)
from live_eval.judges._sound import SHORTEST_S, recording_detail, thread_count, unrateable
from live_eval.judges.networks._torch import batches_by_length, exact_inference, padded, torch_device
from live_eval.judges.text._reply import (
    incomparable,
    other_language,
    refused,
    reply_and_reference,
    unreadable,
)
from live_eval.text.quoting import quoted

__all__ = [
    "LONGEST_SENT_S",
    "SENT_RATE_HZ",
    "SHORTEST_S",
    "PromptTemplate",
    "UnreadableError",
    "batches_by_length",
    "delivery_of",
    "exact_inference",
    "incomparable",
    "other_language",
    "padded",
    "quoted",
    "read_object",
    "read_rating",
    "read_words",
    "recording_detail",
    "refused",
    "reply_and_reference",
    "sound_part",
    "text_part",
    "thread_count",
    "torch_device",
    "unrateable",
    "unreadable",
]
