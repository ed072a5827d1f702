"""Letters and those that they may be read as."""

import pytest

from zgul.encoders.batches import similar_letters


@pytest.mark.parametrize(
    ("letter", "read_as"),
    [
        ("ꙑ", "ы"),  # yeru with back yer
        ("ѭ", "ѫ"),  # iotified big yus
        ("ѻ", "ѡ"),  # round omega
        ("Ѡ", "ѡ"),  # the other case
        ("ǘ", "ü"),  # one mark less
        ("ǘ", "u"),  # both
        ("\u0483", ""),  # a combining titlo
        ("ꝑ", "p"),  # p with stroke through descender
    ],
)
def test_similar_letters_by_the_unicode_standard(letter: str, read_as: str) -> None:
    assert read_as in similar_letters(letter)


def test_the_most_similar_come_first_and_no_letter_is_similar_to_itself() -> None:
    found = similar_letters("ǘ")
    assert found.index("ü") < found.index("u")
    assert all(letter not in similar_letters(letter) for letter in "aꙑǘ҃ƕ1")
    assert similar_letters("1") == ()
