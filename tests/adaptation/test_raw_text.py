"""Raw text: what is dropped and counted, the sample, and what is held out."""

from pathlib import Path

import pytest

from standin import words
from zgul.adaptation.raw_text import HELD_OUT, read_text, unfinished
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning

LINES = words().text("s0", 200)


def test_what_is_dropped_is_counted(tmp_path: Path) -> None:
    dirty = [LINES[0], LINES[0].upper(), "<p>ha wa ja</p>", "see http://x.y ha wa", "12 34 56 78 ha", "ha wa"]
    (tmp_path / "a.txt").write_text("\n\n".join([*dirty, *LINES[:80], "ha " * 130, ""]), "utf-8")
    text = read_text([tmp_path / "a.txt"], "fo", 1000)
    assert text.dropped["duplicates"] >= 2 and text.dropped["with markup"] == 2
    assert text.dropped["with few letters"] == 1 and text.dropped["too short"] >= 1 and text.dropped["too long"] == 1
    assert text.read == len(dirty) + 81 and len(text.train) + len(text.held_out) <= 80


def test_lines_of_another_language_are_dropped(tmp_path: Path) -> None:
    faroese = [f"Hetta er ein lítil roynd við tali {n} og onkrum øðrum um Føroyar." for n in range(90)]
    english = [f"This is the line of another language with the number {n} in it." for n in range(3)]
    (tmp_path / "a.txt").write_text("\n\n".join([*faroese, *english]), "utf-8")
    text = read_text([tmp_path / "a.txt"], "fo", 1000)
    assert text.dropped["of another language"] == 3


def test_the_sample_is_even_and_the_same_for_a_seed(tmp_path: Path) -> None:
    for part in range(2):
        (tmp_path / f"{part}.txt").write_text("\n\n".join(LINES[100 * part : 100 * part + 100]), "utf-8")
    first = read_text([tmp_path], "fo", 80)
    assert first.train == read_text([tmp_path], "fo", 80).train != read_text([tmp_path], "fo", 80, seed=1).train
    assert len(first.train) + len(first.held_out) == 80 and len(first.held_out) == 80 // HELD_OUT
    late = {tuple(line.split()) for line in LINES[100:]}
    assert 20 < sum(tuple(sentence.words) in late for sentence in first.train) < 60


def test_text_of_another_language_as_a_whole_is_warned_of(tmp_path: Path) -> None:
    """A user may have taken the wrong file. A language that cannot be recognised may look like any relative."""
    english = [f"This is a line of another language, with the number {n} in it." for n in range(90)]
    (tmp_path / "a.txt").write_text("\n\n".join(english), "utf-8")
    for code in ("fo", "hsb", "pl"):
        with pytest.warns(ZgulWarning, match=r"looks like English \(en\), not like"):
            read_text([tmp_path / "a.txt"], code, 1000)
    for code in ("en", "nl", "eu"):
        assert len(read_text([tmp_path / "a.txt"], code, 1000).train) == 86


def test_empty_files_and_wrong_names_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ZgulError, match=r"The text has 0 sentences, .* Give more text"):
        read_text([tmp_path / "empty.txt"], "fo", 1000)
    for given in (["missing.txt"], [tmp_path / "empty.txt", "missing.txt"], ["some words"]):
        with pytest.raises(ZgulError, match=f"{given[-1]}: no such file or folder$"):
            read_text(given, "fo", 1000)


def test_no_message_advises_an_option_that_adapting_has_not(tmp_path: Path) -> None:
    """`zgul tag` has --input; `zgul adapt` has not."""
    page, poem, comment = (tmp_path / name for name in ("page.html", "poem.txt", "comment.txt"))
    page.write_text("<!DOCTYPE html>\n<html><body>" + "".join(f"<p>{line}" for line in LINES[:80]), "utf-8")
    poem.write_text("\n".join(line.rstrip(" .!") for line in LINES[:80]), "utf-8")
    comment.write_text("# a = b\n" + "\n\n".join(LINES[:80]), "utf-8")
    for file, message in ((page, r"without the marks\.$"), (poem, "join their lines first")):
        with pytest.warns(ZgulWarning, match=message) as warned:
            assert len(read_text([file], "fo", 1000).train) > 60
        assert not [one for one in warned if "--input" in str(one.message)]
    with pytest.raises(ZgulError, match="begin it with another line") as error:
        read_text([comment], "fo", 1000)
    assert "--input" not in str(error.value)
    comment.write_text(f"{LINES[90]}\n\n{comment.read_text('utf-8')}", "utf-8")
    assert len(read_text([comment], "fo", 1000).train) > 60


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(LINES[:10]), "utf-8")
    with pytest.raises(ZgulError, match=r"can be used .* at least"):
        read_text([tmp_path / "a.txt"], "fo", 1000)


def test_a_share_of_the_sentences_loses_the_punctuation_at_its_end() -> None:
    sentences = [Sentence(["Hon", "kom", "heim", "ígjár", "!", "”"], language="fo") for _ in range(400)]
    cut = unfinished(sentences, 0.2, seed=0)
    shortened = [one for one in cut if len(one) < 6]
    assert {tuple(one.words) for one in shortened} == {("Hon", "kom", "heim", "ígjár")}
    assert 50 < len(shortened) < 110 and all(one.language == "fo" for one in cut)
    assert [one.words for one in unfinished(sentences, 0.2, seed=0)] == [one.words for one in cut], (
        "the same for a seed"
    )
    assert unfinished(sentences, 0.0, seed=0) == sentences
    dots = Sentence(["-", "-", ".", ".", "."], language="fo")
    assert unfinished([dots], 1.0, seed=0)[0].words == ["-", "-", "."], "something is left"
