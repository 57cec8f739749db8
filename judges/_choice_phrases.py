"""The phrases by which options are named, chosen, denied and taken back; a reply in plain words. Pure."""

from __future__ import annotations

import re

__all__ = [
    "AFTER_INTERJECTION",
    "ASKS",
    "BREAK",
    "COURTESY",
    "ENDS",
    "EXCEPT",
    "FILLER",
    "GOES_ON",
    "HEARD",
    "INTERJECTIONS",
    "JOINED",
    "LED",
    "LEFT_OPEN",
    "LEFT_OPEN_AFTER",
    "MENTION",
    "NOT_AFTER",
    "NOT_BEFORE",
    "OFFER",
    "OF_ITSELF",
    "ONE_BEFORE",
    "ONE_OF",
    "OPENS",
    "PLACES",
    "PLURAL",
    "SAID_AFTER",
    "SAID_BEFORE",
    "STARTS_ANEW",
    "SUBORDINATE",
    "TAKES_BACK",
    "TAKES_BACK_HERE",
    "UNDECIDED",
    "VERB",
    "WISH",
    "plain",
]


def _any_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# A reply is speech: what is longer is read from its end, where the answer of one who thinks aloud stands.
_LONGEST = 3000

# What a recogniser writes where a letter is said.
HEARD = {"ay": "A", "eh": "A", "be": "B", "bee": "B", "see": "C", "sea": "C", "cee": "C"}
HEARD |= {"dee": "D", "ee": "E"}
_HEARD_WORDS = "|".join(HEARD)
_ORDINAL = "first|second|third|fourth|fifth|sixth"
_COUNT = "one|two|three|four|five|six"
PLACES = {word: place for words in (_ORDINAL, _COUNT) for place, word in enumerate(words.split("|"))}
PLACES |= {str(place + 1): place for place in range(6)} | {"last": -1}

_NOUN = r"(?:options?|choices?|answers?|letter)"
_ALONE_BEFORE, _ALONE_AFTER = r"(?<![\w'.-])", r"(?![\w'+#]|-\w|\.\w)"
MENTION = _any_case(
    rf"(?:\b(?:the\s+)?(?P<named>{_NOUN})\s+)?\(?{_ALONE_BEFORE}"
    rf"(?:(?P<letter>[a-z])|(?P<heard>{_HEARD_WORDS})){_ALONE_AFTER}"
    rf"|\b(?:(?:option|choice)(?:\s+number)?|number)\s+(?P<count>{_COUNT}|[1-6])\b"
    rf"|(?:\bthe\s+|(?<!and )(?<!or )(?<!my )(?<!to )(?<!second )(?<!third )\b)"
    rf"(?P<ordinal>{_ORDINAL}|last)\s+(?P<noun>option|choice|one|answer)\b"
)
# A letter by itself at the head of a reply; "A:" may stand for "answer".
OPENS = _any_case(rf"\W*(?:(?:option|choice)\s+)?(?:[a-z]|{_HEARD_WORDS}){_ALONE_AFTER}(?!\s*[:?])")
# "a" and the words that letters are heard as are words too: what may follow them where they are letters.
ENDS = re.compile(r"\s*(?:$|[)\]}$.,;:!?\n])")
GOES_ON = _any_case(
    r"\s*(?:$|[()\]}$.,;:!?\n/&-]|(?:because|since|or|and|but|nor|is|was|are|would|could|does|\w+n't|"
    r"seems|sounds|fits|matches|makes|over|rather|instead|not|it\s+is|I\s+(?:think|guess|believe|hear|heard)|"
    r"the\s+speaker)\b)"
)
# Between the options of one breath: "B or C", "A, B and D", "either (b) / (c)".
JOINED = _any_case(
    r"\)?(?:\s*(?:[,/&]|\b(?:and|or|nor|maybe|perhaps|possibly|even|also|either|both|as well as)\b))+\s*\(?$"
)

_IS = (
    r"(?:is|are|was|were|"
    r"(?:would|must|should|could|might|may|will|can|has to|have to|(?:has )?(?:got to|gotta)|"
    r"(?:is )?(?:going to|gonna)) (?:only )?be)"
)
_SURELY = (
    r"(?:(?:\w+ly|uh|um|most|very|just|still|now|then|also|indeed|either|both|between|perhaps|"
    r"maybe|I think|I'd say)[\s,]+)*"
)
SAID_BEFORE = _any_case(
    rf"(?:\b(?:answers?|choices?|options?|pick|guess|selection|response|bet|vote|conclusion|solution|match|"
    rf"closest|(?:the|that|this)\s+one|what I hear)(?:\s+\w+){{0,4}}?(?:\s+{_IS}|'s)"
    rf"|\b(?:it|that|this|these|which)(?:\s+{_IS}|'s(?:\s+(?:got\s+to|gotta)\s+be)?|'d be|'ll be)"
    r"|^\W*(?:could|must|might|may|would|should|can)\s+be|\banswers?|\b(?:change|switch)\s+(?:my\s+answer\s+)?to"
    r"|\b(?:go|going|went|opt|opting|opted)\s+(?:with|for)"
    r"|\b(?:choose|choosing|chose|pick|picking|select|selecting|say|meant|vote\s+for|settle\s+on|stick\s+with|"
    r"lock(?:ing)?\s+in)"
    r"|\b(?:sounds?|seems?|looks?|more)\s+like|\bcloser\s+to|\blean(?:ing)?(?:\s+(?:to|towards?|for))?"
    r"|\b(?:match(?:es|ing)?|fits|corresponds?\s+(?:to|with)|consistent\s+with|points?\s+(?:to|towards?)|"
    r"suggests?|indicates?|supports?|means|leaves?(?:\s+(?:us|me))?(?:\s+with)?)"
    r"|(?:答案|选择?|選擇?|选项)\s*(?:应该|應該)?\s*[是为為]?|(?:认为|觉得)是|^\W*是)"
    rf"\s+{_SURELY}$"
)
# What makes of "the best option" another, and of "likely" its contrary.
_LESSER = r"(?:second|next|least|less|worst|weakest|poor(?:est)?)"
SAID_AFTER = _any_case(
    rf"\)?,?\s+(?:it\s+is\b|(?:(?:{_IS}|sounds?|seems?|looks?)\s+"
    rf"(?:(?!{_LESSER}\b|is\b|[b-h]\b)[\w']+\s+){{0,3}}?"
    r"(?:correct|right|best|better|likely|accurate|fitting|appropriate|true|it|"
    r"answer|pick|(?:choice|option)(?!\s+\(?[a-z]\b)|"
    r"what|closest|the\s+one)\b)"
    r"|(?:\w+ly\s+|also\s+|best\s+)*(?:fits|matches|applies|describes|corresponds|"
    r"makes\s+(?:the\s+)?(?:most\s+)?sense|does(?=\s*(?:$|[.,;!?])))\b)"
)
# What stands beside an option that is said by itself: "So, I think B, for sure."
_FILL = (
    r"so|well|ok|okay|then|therefore|thus|hence|i(?:'d|'ll|'m)?|we|would|say|think|thinking|guess|believe|suppose|"
    r"\w+ly|maybe|perhaps|most|very|quite|for|sure|of|course|please|um|uh|hmm|mm|oh|ah|yes|yeah|no|sorry|wait|mean|"
    r"just|indeed|here|again|now|rather|my|and|but|or|also|either|both|it|must|be|final"
)
FILLER = _any_case(rf"\W*(?:(?:{_FILL})(?![\w'])\W*)*")
LED = _any_case(
    rf"(?:^|\b(?:{_FILL}|that|because|since|as|while|although|though|all|the|how|why|if|between))\W*$"
)

NOT_BEFORE = _any_case(
    r"\b(?:not|never|none|nothing|nobody|neither|nor|cannot|without|unlike|unable|doubt\w*|unlikely|hardly|"
    r"wrong|incorrect|(?:refuse|hesitate|mistake)\s+to|(?:worst|weakest|poor(?:est)?)\s+"
    rf"(?:option|choice|answer|one)(?=\s+{_IS}\s)|"
    r"least\s+(?:likely|plausible|fitting)|least(?=\s+(?:is|was|would\s+be)\b)|"
    r"(?:do|does|is|are|was|were|would|could|should|ca|can|wo|did|has|have|ai)nt|"
    # Of what follows at once.
    r"(?:(?:far|long\s+way)\s+from|nowhere\s+near|opposite\s+of|too\s+\w+\s+(?:for|to\s+be))"
    rf"(?=\s+(?:being\s+)?(?:(?:an?|the|{_NOUN})\s+)*$)|"
    r"(?:less\s+likely|rather|other)\s+(?:than|to)|instead\s+of|anything\s+except|less(?=\s+$)|opposed\s+to|"
    r"rul(?:e|es|ed|ing)\s+out|(?:eliminat|exclud|discard|reject|dismiss|avoid)(?:e|es|ed|ing)?|"
    r"no\s+(?!(?:wait|sorry|it|that|this|there|i|the|actually|[a-z])\b)\w+)\b|n't\b|不"
)
NOT_AFTER = _any_case(
    r"(?:\s*\([^)]*\)|,[^,.;:!?\n]*,)?[)\]]?\s+(?:(?:\w+ly|all|both|just|also|then|still|either)\s+)*"
    r"(?:\w+n't\b|(?:do|does|did|is|are|was|would|ca)nt\b|cannot\b|"
    rf"(?:{_IS}|do|does|did|can|could|would|should|may|might|has|have|seems?|sounds?|looks?|"
    r"feels?|appears?)\s+(?:(?:\w+ly\s+)?not\b|(?:out|off)\b(?!\s+of)|(?:[\w']+\s+){0,2}?(?:wrong|incorrect|false|"
    r"unlikely|impossible|inaccurate|less|ruled\s+out|eliminated|excluded|implausible|inconsistent|mistaken|"
    r"worst|weakest|least|too\s+\w+\s+(?:for|to\s+be))\b)"
    r"|(?:fails?|contradicts?|conflicts?|lacks?)\b)"
)
# "Everything but B", with "but" in plain words; and what stands before the option that is excepted.
_ALL_BUT = _any_case(
    rf"(\b(?:every|any|no)\s*(?:thing|one|other|single|{_NOUN})|\b(?:all|any|none|nothing))"
    rf"((?:\s+(?:of|the|them|these|those|others?|{_NOUN}))*)\s+but\b"
)
EXCEPT = _any_case(r"\b(?:except(?:\s+for)?|(?:other|apart|aside)\s+(?:than|from))\s+$")
# "Incorrect: A, C."
_WRONG_ONES = _any_case(rf"\b((?:incorrect|wrong|not\s+(?:correct|right))(?:\s+{_NOUN})?)\s*:")
# What a recogniser writes that sets no marks: "its b", "its not a its b".
_NO_APOSTROPHE = _any_case(
    rf"\b(it|that)s(?=\s+(?:not|neither|either|between|option|\w+ly|[a-h]|{_HEARD_WORDS})\b)"
)
_RESTART = _any_case(
    rf"\b(?:(?:[a-h]|{_HEARD_WORDS})(?=\s+(?:(?:it(?:'s|\s+is)|that's)\s+\w|the\s+(?:\w+\s+)?answer\s+is\b|"
    r"I\s+(?:think|believe|guess|would|choose)\b|I'd\b|I'm\b|no\s+[a-h]\b))"
    r"|(?:wrong|incorrect|out|right|close)(?=\s+(?:option\s+)?[a-h]\s+(?:is|isn't|does|doesn't)\b))"
)
_YES, _NO = _any_case(r"\b(?:yep|yup|yeah(?!\W+no\b))\b"), _any_case(r"\b(?:nope|nah)\b")
# Denials that deny nothing, and "B as in boy".
_EMPTY = _any_case(
    r"\b(?:(?<!\bor )no|without(?:\s+a|\s+any)?)\s+(?:doubt|question)\b|\bnot\s+only\b"
    r"|\b(?:do\s+not|don't|cannot|can't)\s+(?:doubt|deny)\b|(?<=\b[a-z])\s+as\s+in\s+\w+"
)
_EARLIER = r"(?:first|second|initial|original|earlier|previous)"
_GUESS = r"(?:answer|choice|guess|pick|thought|instinct|impression)"
LEFT_OPEN = _any_case(
    r"^\W*(?:(?:so|but|and|even)\s+)*(?:if|unless|suppose)\b|\bwhether\b|\bat\s+first\b"
    r"|\b(?:initially|originally|previously|earlier|used\s+to)\b|\bI\s+(?:first\s+|had\s+)?thought\b"
    rf"|\b(?:second|next)(?:\s+best)?\s+{_GUESS}\s+{_IS}|\btempt\w+\s+to\b|\b(?:was|were)\s+leaning\b"
    r"|^\W*otherwise\b|\b(?:text|words|wording|script|content)\s+alone\b"
    r"|\b(?:normally|usually)\s+(?:I|it|that)(?:\s+would|'d)\b"
    rf"|\b{_EARLIER}\s+{_GUESS}\s+(?:was|would\s+have\s+been)\b|\balmost\s+(?:said|say|chose|picked)\b"
    r"|\byou\s+(?:said|asked|want\w*)\b|\b(?:you|some|people|others)\s+(?:would|could|might|may)"
    r"\s+(?:have\s+)?(?:think|thought|expect\w*|argue|say|said|choose|chosen|pick|picked|guess)\b"
    r"|\bthan\s+(?:an?\s+)?$"
)
LEFT_OPEN_AFTER = _any_case(rf"\)?\s+(?:was|would\s+(?:be|have\s+been))\s+my\s+{_EARLIER}\s+{_GUESS}\b")
ASKS = _any_case(r"^\W*(?:is|are|was|could|would|should|did|do|does|can|which|what|why|how|who|shall|will)\b")

_TAKEN_BACK = (
    r"(?:no,?\s+wait|wait|correction|I\s+mean(?:t)?|scratch\s+that|on\s+(?:second\s+thoughts?|reflection)|"
    r"let\s+me\s+(?:correct|rephrase)(?:\s+(?:that|myself))?|I\s+take\s+(?:that|it)\s+back|"
    r"(?:no,?\s+)?sorry|(?:just\s+)?kidding|my\s+mistake)"
)
TAKES_BACK = _any_case(rf"\W*(?:(?:oh|um|but|well|or|actually|no)\b\W*)*{_TAKEN_BACK}\b")
# These take back only in the clause that chooses anew: "Actually", "now" and "no" begin other sentences too.
TAKES_BACK_HERE = _any_case(
    r"\W*(?:(?:oh|but|well|hmm)\b\W*)*(?:no\b(?!\s+\w{2})|actually\b|(?:and\s+|so\s+)?now\b|or\s+rather\b)"
)

BREAK = _any_case(
    r"(?P<sentence>[.!?…]+(?!\w)|\n)|(?P<clause>;|:(?!\d)|\s-+\s|[–—])"
    r"|(?P<soft>,|\band\b)"
    r"|\b(?:but|so|because|since|whereas|although|though|however|therefore|thus|hence|then|"
    rf"which|if|unless|while|when|{_TAKEN_BACK})\b"
)
VERB = _any_case(
    r"\b(?:is|are|was|were|be|does|do|did|\w+n't|cannot|seems?|sounds?|fits?|match(?:es)?|choose|pick|has|have|can|"
    r"could|would|should|will|rul(?:es?|ed|ing)\s+out|eliminat\w+|leaves?)\b|'s\b"
)
PLURAL = _any_case(
    rf"\s*(?:and\s+|or\s+)?(?:{_NOUN}\s+)?[a-z]\s+(?:\w+ly\s+|both\s+|all\s+)?"
    r"(?:are|were|do|don't|aren't|have|fit|match|sound|seem|look)\b"
)
SUBORDINATE = _any_case(
    r"\W*(?:if|when|while|although|though|since|because|as|after|instead|rather|unlike|given|between|unless)\b"
)
STARTS_ANEW = _any_case(
    r"\s*(?:(?:and|or)\s+)?(?:(?:i|it|that|this|there|they|he|she|we|you|my)\b|the\s+(?:answer|correct|right|best)\b|"
    r"(?:maybe|perhaps|probably|possibly|definitely|just|only|actually|now|or\s+rather)\b"
    r"|(?:go|choose|pick|select)\b|no\b(?=,|\s+[a-z]\b|\s*$|\s*[.!?])|答案|我|是)"
)

_I_CANNOT = (
    r"\b(?:I|we)\s+(?:really\s+|simply\s+|just\s+)?(?:cannot|can't|can\s+not|won't|will\s+not|couldn't|could\s+not|"
    r"am\s+(?:unable|not\s+able)\s+to|'m\s+(?:unable|not\s+able)\s+to|refuse\s+to|decline\s+to|"
    r"(?:would|'d)\s+rather\s+not)|\bI'm\s+(?:unable|not\s+able)\s+to|\bI'd\s+rather\s+not"
    r"|\b(?:impossible|not\s+possible|no\s+way)(?:\s+for\s+me)?\s+to"
)
UNDECIDED = _any_case(
    rf"(?:{_I_CANNOT})\s+(?:\w+ly\s+)?(?:choose|pick|select|decide|tell|say|determine|judge|guess|answer|identify|"
    r"distinguish|make\s+a\s+(?:choice|decision))\b(?!\s+you\b)"
)
# An option "No" is said by itself, or at the head of an answer; elsewhere it is a word like others.
INTERJECTIONS = frozenset({"yes", "no"})
AFTER_INTERJECTION = _any_case(
    r"\s*(?!or\s+no\s+\w)(?:$|[.,!?;:)\n-]|(?:i|it|he|she|they|we|there|this|that|because|since|and|or|but)\b)"
)

# The text of an option may be a word of chat: said by the assistant of itself, in an offer, in a wish.
OF_ITSELF = _any_case(
    r"(?:\b(?:(?:I|we)(?:'m|'re|'d\s+be|'ll\s+be|\s+(?:am|are|was|were|feel|felt|would\s+be|will\s+be))"
    r"|ma[dk]es?\s+me)|^\W*to\s+be)\s+(?:(?:so|very|really|quite|just|always|also|more\s+than|\w+ly)\s+)*$"
)
COURTESY = _any_case(
    r"\s+(?:to\s+(?!me\b)\w|(?:for|that)\s+you\b|birthday|anniversary|holidays?|new\s+year|\w+day\b)"
)
WISH = _any_case(
    r"\b(?:hop(?:e|ing)|wish|let's|let\s+(?:me|us))\b|^\W*(?:\w+\W+){0,2}?have\s+an?\b"
    r"|^\W*(?:be|stay|how|are\s+you)\s+$"
    r"|\b(?:okay|ok|all\s*right|normal|natural|easy)\s+to\s+(?:be|feel|get)\b"
)
# "One" may count nothing: "this is a hard one", "one of them coughs".
ONE_BEFORE = _any_case(r"\b(?:this|that|which|the|each|every|any|an?\s+\w+)\s+$")
ONE_OF = _any_case(r"\s+(?:of|moment|second|thing|with|who|that|which)\b")
OFFER = _any_case(
    r"\W*(?:(?:of\s+course|sure|certainly|absolutely|please)\W+)*(?:"
    r"I(?:'m|\s+am|'d\s+be|\s+would\s+be|'ll\s+be)\s+(?:\w+\s+)?"
    r"(?:(?:happy|glad)(?!\s+to\s+(?:say|report|confirm))|here|listening|ready)\b"
    r"|go\s+ahead\b|please\b|hello\b|I\s+(?:hear|heard|understand|understood)\s+(?:you|your|the\s+question)\b"
    r"|(?:sorry\W+)?I\s+(?:can't|cannot|can\s+not|couldn't)\s+(?:really\s+)?(?:tell|say|answer|hear)"
    r"(?:\s+(?:you|it|that|this))?\s*(?:$|[.,!?;])"
    r"|I(?:\s+can|'ll|\s+will|'d\s+love\s+to)\s+(?:\w+ly\s+)?(?:help|assist|do\s+that|try|listen|hear\s+you)\b"
    r"|let\s+me\s+(?:listen|help|check|hear|think|try)\b|(?:happy|glad)\s+to\b|(?:how|what)\s+(?:can|may)\s+I\b)"
)

# "The answer: B", but not "C is my answer, B is close".
_LEADS_ON = _any_case(
    rf"(?P<told>(?:\b{_IS}|'s)\s+(?:my|the)\s+(?:\w+\s+){{0,2}}?(?:answer|choice|option|pick)\s*,)"
    r"|(?P<leads>\b(?:is|are|be|answer|choice|option|letter|pick)|'s)\s*(?:[:=…]|,|\.{2,}|-|\n)\s*"
    rf"(?=\(?(?:[a-z]|the|option|choice|{_HEARD_WORDS})\b)"
)
_DRESS = str.maketrans('*_`"“”<>。，：；（）‘’', " " * 8 + ".,:;()''")


def plain(reply: str) -> str:
    """Return the reply without what only dresses it: marks, quotes, colons after "is", empty denials."""
    text = re.sub(r"[^\S\n]+", " ", re.sub(r"\s*\n\s*", "\n", reply.translate(_DRESS)))[-_LONGEST:]
    text = re.sub(r"(?<!\w)'|'(?!\w)", " ", text)
    text = re.sub(r"\\+boxed\s*\{", " the answer is ", text)
    text = re.sub(r"(?<=[\u3400-\u9fff])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u3400-\u9fff])", " ", text)
    text = _NO.sub("no", _YES.sub("yes", text))
    text = _LEADS_ON.sub(lambda found: found[0] if found["told"] else f"{found['leads']} ", text)
    text = re.sub(r"\beven\s+though\b", "even if", text, flags=re.IGNORECASE)  # what it concedes is no choice
    text = _WRONG_ONES.sub(r"\1 ", text)
    text = _ALL_BUT.sub(r"\1\2 except", text)
    text = _NO_APOSTROPHE.sub(r"\1's", text)
    text = _RESTART.sub(r"\g<0>;", text)
    # "Option A: wrong."
    text = re.sub(
        r"\s*[:–—]\s*(?=(?:correct|right|true|wrong|incorrect|false|(?:un)?likely)\b)", " is ", text
    )
    return _EMPTY.sub(" ", text).strip()
