import pytest

from live_eval.judges.text._final_answer import NUMBERS, final_answer, final_number

YES_NO = ("yes", "no")
VALID = ("invalid", "valid")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Yes.", "yes"),
        ("no", "no"),
        ("Yes, you return to the starting point.", "yes"),
        ("You turn around twice. So, no.", "no"),
        ("**The answer is: No.**", "no"),
        ("The answer is yes. Wait, the answer is no.", "no"),
        ("No. First you walk. Then the answer is yes.", "yes"),
        ("There is no way back. You end two steps away.", None),
        ("It could be yes or no.", None),
        ("The answer is not yes.", None),
        ("Nobody knows.", None),
        ("", None),
    ],
)
def test_yes_or_no(reply: str, answer: str | None) -> None:
    assert final_answer(reply, YES_NO) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The argument is deductively invalid.", "invalid"),
        ("Valid.", "valid"),
        ("It follows from the premises. Therefore, the answer is valid.", "valid"),
        ("The answer is: the argument is deductively valid.", "valid"),
        ("The conclusion follows, so this is a valid argument.", "valid"),
        ("It is not valid.", None),
        ("It is valid if the premise holds, else invalid.", None),
        ("I would need to think about it.", None),
    ],
)
def test_valid_or_invalid(reply: str, answer: str | None) -> None:
    assert final_answer(reply, VALID) == answer


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("You have 12 objects.", 12),
        ("Two apples and one pear, so the answer is three.", 3),
        ("You have two apples and one pear. That makes three fruits.", 3),
        ("In total: seventeen", 17),
        ("The total is twenty one.", 21),
        ("Ninety-nine.", 99),
        ("The answer is 1,204.", None),
        ("Two apples and one pear.", None),
        ("Many.", None),
        ("", None),
    ],
)
def test_numbers(reply: str, number: int | None) -> None:
    assert final_number(reply) == number


def test_number_words() -> None:
    assert (len(NUMBERS), NUMBERS["forty-two"], max(NUMBERS.values())) == (100, 42, 99)
