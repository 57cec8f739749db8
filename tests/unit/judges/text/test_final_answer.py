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
        ("Yes and no.", None),
        ("No and yes.", None),
        ("Yes, no, maybe.", None),
        ("The answer is yes and no.", None),
        ("Yes, yes.", "yes"),
        ("No doubt, yes, he tells the truth.", "yes"),
        ("No worries. Yes, you return.", "yes"),
        ("No question, no.", "no"),
        ("Yes, no matter how you turn.", "yes"),
        ("No matter how you turn, you return.", None),
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
        ("It could be valid or invalid.", None),
        ("Valid and invalid.", None),
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
        ("You have three apples and four pears, so that makes seven fruits.", 7),
        ("2 + 3 = 5 items.", 5),
        ("Two plus three is five.", 5),
        ("The answer is 3 + 5 = 8.", 8),
        ("The answer is 8, not 9.", 8),
        ("The answer is 8 objects, but 2 of them are broken.", 8),
        ("The answer is 8 because 3 plus 5 is 8.", 8),
        ("There are a total of 8 objects: 3 cups and 5 spoons.", 8),
        ("There are a total of 8 objects, 3 cups and 5 spoons.", 8),
        ("In total: 3 cups and 5 spoons, so 8.", 8),
        ("In total, you have 4 fruits: an apple, two pears and a plum.", 4),
        ("That makes 2 trombones, 1 flute and 3 drums: 6 instruments in total.", 6),
        ("You have eight objects in total: three cups and five spoons.", 8),
        ("Apples: 2, pears: 3, total: 5", 5),
        ("1+1+1 gives 3, so you have 3 fruits.", 3),
        ("I count 2 cats, 3 dogs. That is 5 animals.", 5),
        ("You have 3 cups and 5 spoons in total.", None),
        ("A total of 3 cups and 5 spoons.", None),
        ("So you have 2 cats and 3 dogs.", None),
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
