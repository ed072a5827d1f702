"""CoNLL-U: every byte of real treebanks comes back, one column changes alone, broken files are met."""

import io
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgul.corpora import Sentence, conllu, plain_text
from zgul.corpora import lines as lines_module
from zgul.corpora.conllu import ConlluSentence
from zgul.corpora.sentence import UPOS
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import open_binary

SAMPLE = """\
# newdoc
# sent_id = s1
# text = Ich gehe zum Arzt, don't ask.
1\tIch\tich\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tgehe\tgehen\tVERB\t_\t_\t0\troot\t_\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\tzu\tADP\t_\t_\t5\tcase\t_\t_
4\tdem\tder\tDET\t_\t_\t5\tdet\t_\t_
5\tArzt\tArzt\tNOUN\t_\t_\t2\tobl\t_\tSpaceAfter=No|Gloss=doctor
5.1\tund\tund\tCCONJ\t_\t_\t_\t_\t5:cc\t_
6\t,\t,\tPUNCT\t_\t_\t2\tpunct\t_\t_
7-8\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
7\tdo\tdo\tAUX\t_\t_\t9\taux\t_\t_
8\tn't\tnot\tPART\t_\t_\t9\tadvmod\t_\t_
9\task\task\tVERB\t_\t_\t2\tconj\t_\tSpaceAfter=No
10\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

"""
TREEBANKS = [
    "de_gsd-ud-dev",
    "en_ewt-ud-dev",
    "fo_oft-ud-test",
    "got_proiel-ud-test",
    "gsw_uzh-ud-test",
    "hsb_ufal-ud-test",
    "orv_birchbark-ud-test",
    "qpm_philotis-ud-test",
]


def read(text: str | bytes) -> list[ConlluSentence]:
    return list(conllu.read(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def written(sentences: list[ConlluSentence]) -> str:
    return "".join(map(str, sentences))


def row(number: int | str = 1, form: str = "a", upos: str = "X", misc: str = "_") -> str:
    return f"{number}\t{form}\t_\t{upos}\t_\t_\t_\t_\t_\t{misc}\n"


@pytest.mark.parametrize("name", TREEBANKS)
def test_real_treebanks_come_back_byte_by_byte(shared_data: Path, name: str) -> None:
    path = shared_data / "conllu" / f"{name}.conllu.xz"
    with open_binary(path) as file:
        original = file.read()
    sentences = list(conllu.read(path))
    assert written(sentences).encode() == original
    assert len(sentences) == original.count(b"\n\n")


@pytest.mark.parametrize("name", TREEBANKS)
def test_rewriting_one_column_of_a_real_treebank_changes_it_alone(shared_data: Path, name: str) -> None:
    path = shared_data / "conllu" / f"{name}.conllu.xz"
    with open_binary(path) as file:
        original = file.read().decode().split("\n")
    sentences = list(conllu.read(path))
    for sentence in sentences:
        sentence.set_tags("pos", ["SYM"] * len(sentence))
        sentence.set_tags("ner", ["B-PER"] * len(sentence))
    changed = 0
    for old, new in zip(original, written(sentences).split("\n"), strict=True):
        if old != new:
            before, after = old.split("\t"), new.split("\t")
            assert before[0].isdigit() and after[3] == "SYM"
            assert before[:3] + before[4:9] == after[:3] + after[4:9]
            assert after[9] == ("NER=B-PER" if before[9] == "_" else f"{before[9]}|NER=B-PER")
            changed += 1
    assert changed == sum(map(len, sentences))


@pytest.mark.parametrize("name", TREEBANKS)
def test_words_of_real_treebanks_lie_in_their_text(shared_data: Path, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sentence in conllu.read(shared_data / "conllu" / f"{name}.conllu.xz"):
            plain = sentence.to_sentence("pos")
            assert plain.tags == sentence.upos and plain.text == sentence.comment("text")
            assert plain.text is not None and plain.offsets is not None
            surface = "".join(plain.text[start:end] for start, end in sorted(set(plain.offsets)))
            assert surface == "".join(plain.text.split())


def test_the_sample_and_its_offsets() -> None:
    (sentence,) = read(SAMPLE)
    assert written([sentence]) == SAMPLE
    assert sentence.comment("sent_id") == "s1" and sentence.comment("nothing") is None
    plain = sentence.to_sentence("pos", "de")
    assert plain.words == ["Ich", "gehe", "zu", "dem", "Arzt", ",", "do", "n't", "ask", "."]
    assert plain.text is not None and plain.offsets is not None and plain.language == "de"
    surface = [plain.text[start:end] for start, end in plain.offsets]
    assert surface == ["Ich", "gehe", "zum", "zum", "Arzt", ",", "do", "n't", "ask", "."]


def test_entities_live_in_misc_beside_the_other_entries() -> None:
    (sentence,) = read(SAMPLE)
    assert sentence.to_sentence("ner").tags is None
    tags = ["I-PER", "O", "O", "O", "S-LOC", *["O"] * 5]
    sentence.set_tags("ner", tags)
    assert sentence.rows[5][9] == "SpaceAfter=No|Gloss=doctor|NER=S-LOC"
    assert sentence.ner == tags
    assert sentence.to_sentence("ner").tags == ["B-PER", "O", "O", "O", "B-LOC", *["O"] * 5]
    sentence.set_tags("ner", ["O"] * 10)
    assert sentence.rows[5][9] == "SpaceAfter=No|Gloss=doctor|NER=O"
    assert sentence.rows[2] == read(SAMPLE)[0].rows[2]  # the multi-word token has no tag


def test_wrong_tags_are_refused() -> None:
    (sentence,) = read(SAMPLE)
    with pytest.raises(ZgulError, match="'NN' is not a universal"):
        sentence.set_tags("pos", ["NN"] * 10)
    with pytest.raises(ZgulError, match="'PER' is not an entity"):
        sentence.set_tags("ner", ["PER"] * 10)
    with pytest.raises(ZgulError, match="no task 'chunks'"):
        sentence.set_tags("chunks", ["X"] * 10)
    with pytest.raises(ValueError, match="10 words but 1 tags"):
        sentence.set_tags("pos", ["X"])
    assert written([sentence]) == SAMPLE


def test_partly_tagged_sentences_count_as_untagged_with_a_warning() -> None:
    (sentence,) = read(row(1) + row(2, upos="_") + "\n")
    with pytest.warns(ZgulWarning, match="line 1: 1 of 2 words have no pos tag"):
        assert sentence.to_sentence("pos").tags is None


def test_words_have_their_own_languages_in_misc() -> None:
    text = (
        row(1, "a", misc="Lang=de|SpaceAfter=No") + row(2, "b", misc="Gloss=Lang") + row(3, "c", misc="Lang=deu") + "\n"
    )
    mixed, plain = read(text + row() + "\n")
    assert mixed.to_sentence("pos", "fo").word_languages == ["de", "fo", "de"]
    assert mixed.to_sentence().word_languages == ["de", "", "de"]
    assert plain.to_sentence("pos", "fo").word_languages is None
    assert str(mixed) == text


def test_a_language_that_is_none_is_said_once() -> None:
    (mixed,) = read(row(1, "a", misc="Lang=nosuch1") + row(2, "b", misc="Lang=nosuch1") + row(3, misc="Lang=is") + "\n")
    with pytest.warns(ZgulWarning, match="Lang=nosuch1 in MISC is not a language") as caught:
        assert mixed.to_sentence(language="fo").word_languages == ["fo", "fo", "is"]
        assert mixed.to_sentence().word_languages == ["", "", "is"]
    assert len(caught) == 1


@pytest.mark.parametrize("name", TREEBANKS)
def test_languages_of_words_in_real_treebanks(shared_data: Path, name: str) -> None:
    """Upper Sorbian has five words of Latin (et al., de jure), German two of English; the others have none."""
    path = shared_data / "conllu" / f"{name}.conllu.xz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [sentence.to_sentence("pos", "xx").word_languages for sentence in conllu.read(path)]
    foreign = [code for languages in found if languages for code in languages if code != "xx"]
    assert foreign == {"hsb_ufal-ud-test": ["la"] * 5, "de_gsd-ud-dev": ["en"] * 2}.get(name, [])


def test_tags_that_do_not_matter_are_not_checked() -> None:
    text = row(upos="FOO") + "\n"
    (sentence,) = conllu.read(io.BytesIO(text.encode()), check_upos=False)
    assert str(sentence) == text
    with pytest.raises(ZgulError, match="'FOO' is not a universal part of speech"):
        sentence.to_sentence("pos")


def test_unknown_entities_in_misc_are_an_error_with_their_place() -> None:
    (sentence,) = read("# c\n" + row(misc="NER=person") + "\n")
    with pytest.raises(ZgulError, match="line 2: 'person' is not an entity tag"):
        sentence.to_sentence("ner")


def test_text_is_put_together_where_it_is_missing_or_wrong() -> None:
    rows = row(1, "a", misc="SpaceAfter=No") + row(2, ",") + row(3, "b c") + "\n"
    plain = read(rows)[0].to_sentence()
    assert (plain.text, plain.offsets) == ("a, b c", [(0, 1), (1, 2), (3, 6)])
    with pytest.warns(ZgulWarning, match="line 2: '# text' does not match"):
        assert read("# text = other\n" + rows)[0].to_sentence().text == "a, b c"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\n\n", "line 1: 2 columns where CoNLL-U has 10"),
        (row(form="a\tb"), "line 1: 11 columns .* must not contain a tab"),
        ("word\n", "line 1: 1 columns .* another format"),
        (row(upos="NN"), "line 1: 'NN' is not a universal part of speech"),
        (row(1) + row(3), "line 2: word number '3' where 2 is expected"),
        (row(1) + row(1), "line 2: word number '1' where 2 is expected; is a blank line missing"),
        (row("x"), "line 1: word number 'x'"),
        (row("2-3"), "line 1: word number '2-3'"),
        (row(1) + row("2.1"), "line 2: word number '2.1'"),
        (row("1-2") + row("1-3"), "line 2: word number '1-3'"),
        (row("1-2") + row(1) + "\n", "line 3: a multi-word token reaches to word 2"),
        (row(1) + "# c\n", "line 2: a comment inside a sentence"),
        (row(form=""), "line 1: an empty column"),
        ("a b\n", "line 1: 1 column"),
    ],
)
def test_broken_files_are_errors_with_their_line(text: str, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        read(text)


def test_an_unclosed_last_sentence_is_kept_and_announced() -> None:
    with pytest.warns(ZgulWarning, match="line 3: the last sentence has no blank line"):
        sentences = read(row() + "\n" + row())
    assert len(sentences) == 2
    assert written(sentences) == (row() + "\n") * 2


def test_blocks_of_comments_and_needless_blank_lines() -> None:
    sentences = read("\n\n" + row() + "\n \n\n# the end\n\n")
    assert [len(sentence) for sentence in sentences] == [1, 0]
    assert written(sentences) == row() + "\n# the end\n\n"
    assert sentences[1].to_sentence("pos").words == []


def test_a_file_without_blank_lines_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_BLOCK_LINES", 5)
    with pytest.raises(ZgulError, match="line 6: no blank line in 5 lines"):
        read("".join(row(number) for number in range(1, 10)))
    with pytest.raises(ZgulError, match="line 6: no blank line in 5 lines"):
        read("# comment\n" * 9)


def test_a_new_sentence_from_offsets() -> None:
    plain = Sentence(["Ja", ",", "zu", "dem", "!"], ["INTJ", "PUNCT", "ADP", "DET", "PUNCT"])
    plain.text, plain.offsets = "Ja,\nzum!", [(0, 2), (2, 3), (4, 7), (4, 7), (7, 8)]
    new = ConlluSentence.from_sentence(plain, "d-1")
    new.set_tags("pos", plain.tags)
    assert str(new) == (
        "# sent_id = d-1\n# text = Ja, zum!\n"
        + row(1, "Ja", "INTJ", "SpaceAfter=No")
        + row(2, ",", "PUNCT")
        + row("3-4", "zum", "_", "SpaceAfter=No")
        + row(3, "zu", "ADP")
        + row(4, "dem", "DET")
        + row(5, "!", "PUNCT")
        + "\n"
    )
    again = read(str(new))[0].to_sentence("pos")
    assert (again.words, again.tags, again.offsets) == (plain.words, plain.tags, plain.offsets)


def test_a_new_sentence_without_text() -> None:
    new = ConlluSentence.from_sentence(Sentence(["a", "b"]))
    new.set_tags("ner", ["O", "B-PER"])
    assert str(new) == "# text = a b\n" + row(1, "a", "_", "NER=O") + row(2, "b", "_", "NER=B-PER") + "\n"
    with pytest.raises(ZgulError, match="cannot be written"):
        ConlluSentence.from_sentence(Sentence(["a\tb"]))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Ja\u2028nei", "Ja nei"),
        ("Ja\x85nei", "Ja nei"),
        ("Ja\u00a0nei\u00a0!", "Ja nei !"),
        ("Ja \t\n  nei", "Ja nei"),
        ("Ja\u200bnei", "Janei"),
        ("Ja\ufeff nei\u200b.", "Ja nei."),
        ("\u2003Ja\x1fnei\u2029", "Ja nei"),
    ],
)
def test_spaces_of_any_kind_give_valid_conllu(text: str, written: str) -> None:
    sentence = ConlluSentence.from_sentence(plain_text.words(text))
    assert sentence.comment("text") == written
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that '# text' does not match the words
        (again,) = read(str(sentence))
        plain = again.to_sentence()
    assert plain.text == written and plain.words == plain_text.words(text).words
    assert len(str(sentence).splitlines()) == len(str(sentence).split("\n")) - 1, "other programs see other lines"


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_gives_conllu_that_is_valid(text: str) -> None:
    sentence = ConlluSentence.from_sentence(plain_text.words(text), sent_id=text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (again,) = read(str(sentence))
        assert again.to_sentence().words == plain_text.words(text).words
    spaced = [(row[1], row[9] != "SpaceAfter=No") for row in sentence.rows]  # as the validator of UD reads it
    assert sentence.comment("text") == "".join(form + " " * space for form, space in spaced).strip()


ENDLESS = """
import resource, sys, time
from zgul.corpora import conllu
from zgul.errors import ZgulError
class Endless:
    name = "endless"
    line = sys.argv[1].encode().decode("unicode_escape").encode() * int(sys.argv[2]) + b"\\n"
    def readline(self, limit):
        return self.line
conllu.looks_like_conllu("")
start = time.process_time()
try:
    list(conllu.read(Endless()))
except ZgulError as error:
    print(error)
status = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time() - start, int(status.split()[1]) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read there")
@pytest.mark.parametrize(("text", "times"), [("# comment", 1), ("# long", 1 << 18), ("#", 1), ("a\\tb", 1)])
def test_endless_blocks_are_refused_quickly_in_little_memory(text: str, times: int) -> None:
    command = [sys.executable, "-c", ENDLESS, text, str(times)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    message, figures = run.stdout.strip().split("\n")
    seconds, megabytes = map(float, figures.split())
    assert "no blank line in" in message
    assert seconds < 1 and megabytes < 200


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(words, st.sampled_from(UPOS), st.booleans()), min_size=1))
def test_round_trip_of_new_sentences(tokens: list[tuple[str, str, bool]]) -> None:
    plain = Sentence([word for word, _, _ in tokens], [tag for _, tag, _ in tokens], text="", offsets=None)
    plain.offsets = []
    for word, _, spaced in tokens:
        plain.offsets.append((len(plain.text or ""), len(plain.text or "") + len(word)))
        plain.text = f"{plain.text}{word}{' ' * spaced}"
    new = ConlluSentence.from_sentence(plain)
    new.set_tags("pos", plain.tags)
    (again,) = read(str(new))
    assert str(again) == str(new)
    assert (again.words, again.upos) == (plain.words, plain.tags)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZgulWarning)  # words may begin with odd spaces
        back = again.to_sentence("pos")
    assert [(back.text or "")[start:end] for start, end in back.offsets or []] == plain.words


pieces = st.lists(
    st.sampled_from(
        ["1", "2", "1-2", "1.1", "\t", "_", "X", "NOUN", "# text = a", "\n", "\n\n", "a", " ", row(), row(2)]
    )
)


@given(st.one_of(st.binary(), pieces.map(lambda parts: "".join(parts).encode())))
def test_any_bytes_give_sentences_or_a_clear_error(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZgulWarning)
        try:
            for sentence in read(data):
                plain = sentence.to_sentence("pos")
                assert plain.words == sentence.words and len(plain.offsets or []) == len(plain.words)
                sentence.to_sentence("ner")
        except ZgulError:
            pass
