"""The formats that tagged sentences are written in."""

import io
import json

import pytest

from zgul.corpora import columns, conllu
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.tagging.documents import Layer, TaggedSentence
from zgul.tagging.reading import Input, read

CONLLU = """\
# sent_id = a
# text = vámonos al mar
1-2	vámonos	_	_	_	_	_	_	_	_
1	vamos	ir	VERB	_	Mood=Imp	0	root	_	NER=O
2	nos	nosotros	PRON	_	_	1	obj	_	_
2.1	x	_	_	_	_	_	_	_	_
3-4	al	_	_	_	_	_	_	_	_
3	a	a	ADP	_	_	5	case	_	_
4	el	el	_	_	_	5	det	_	Gloss=the
5	mar	mar	NOUN	_	_	1	obl	_	SpaceAfter=No

"""


def sentences(data: str) -> list[Sentence]:
    return list(read(Input(io.BytesIO(data.encode()), "given")))


def tagged(sentence: Sentence, *, ner: bool = False, weights: bool = False) -> TaggedSentence:
    """Each word's tag depends on its place."""
    size = len(sentence)
    tags = ["B-PER" if i % 2 == 0 else "I-PER" for i in range(size)] if ner else ["NOUN", "VERB", "X"] * size
    mix = [{"is": 0.25, "en": 0.75}] * size if weights else None
    layers = {"ner" if ner else "pos": Layer(tags[:size], [0.9] * size, mix)}
    text = sentence.text if sentence.text is not None else " ".join(sentence.words)
    offsets = sentence.offsets or [(i, i + 1) for i in range(size)]
    return TaggedSentence(text, sentence.words, offsets, layers, "fo", opens=sentence.opens, block=sentence.block)


def test_parts_of_speech_that_are_to_be_replaced_may_be_any() -> None:
    (sentence,) = sentences(CONLLU.replace("\tVERB\t", "\tFOO\t"))
    assert "FOO" not in tagged(sentence).to_conllu()


def test_conllu_keeps_its_other_columns() -> None:
    (sentence,) = sentences(CONLLU)
    written = tagged(sentence).to_conllu()
    before, after = ([line.split("\t") for line in text.splitlines()] for text in (CONLLU, written))
    for old, new in zip(before, after, strict=True):
        if old[0].isdigit():
            assert new[3] in ("NOUN", "VERB", "X")
            new[3] = old[3]
        assert new == old


def test_entities_weights_and_probabilities_go_to_misc_beside_what_is_there() -> None:
    (sentence,) = sentences(CONLLU)
    written = tagged(sentence, ner=True, weights=True).to_conllu(probabilities=True)
    by_number = {row[0]: row for row in (line.split("\t") for line in written.splitlines() if line[:1].isdigit())}
    assert by_number["1"][3] == "VERB"  # not asked for, so not touched
    assert by_number["1"][9] == "NER=B-PER|NERProb=0.9000|NERWeights=en:0.75,is:0.25"
    assert by_number["4"][9] == "Gloss=the|NER=I-PER|NERProb=0.9000|NERWeights=en:0.75,is:0.25"
    (again,) = sentences(written)
    assert tagged(again, ner=True, weights=True).to_conllu(probabilities=True) == written


def test_new_conllu_is_read_back() -> None:
    first, second = sentences("Ein, tveir.\n\nTríggir.")
    written = tagged(first).to_text("conllu", 7) + tagged(second).to_text("conllu", 8)
    block, other = conllu.read(io.BytesIO(written.encode()))
    assert (block.comment("sent_id"), block.comment("text")) == ("7", "Ein, tveir.")
    assert block.upos == ["NOUN", "VERB", "X", "NOUN"]
    assert block.rows[0][9] == "SpaceAfter=No"
    assert (block.comments[0], other.comments[0]) == ("# newdoc", "# newpar")


def test_tsv_is_read_back_as_words_and_tags() -> None:
    (sentence,) = sentences("Ein, tveir.")
    for weights in (False, True):
        for probabilities in (False, True):
            written = tagged(sentence, weights=weights).to_text("tsv", probabilities=probabilities)
            (again,) = columns.read(io.BytesIO(written.encode()), task="pos")
            assert again.words == ["Ein", ",", "tveir", "."]
            assert again.tags == ["NOUN", "VERB", "X", "NOUN"]
            assert written.split("\n")[0].count("\t") == 1 + weights + probabilities
    with pytest.raises(ZgulError, match="cannot be written"):
        tagged(Sentence(["a\tb"])).to_tsv()


def test_json() -> None:
    (sentence,) = sentences("Ein, tveir.")
    line = tagged(sentence, ner=True, weights=True).to_text("json")
    assert line.count("\n") == 1
    data = json.loads(line)
    assert data["entities"][0] == {"text": "Ein,", "label": "PER", "start": 0, "end": 4, "probability": 0.9}
    assert data["ner_weights"][0] == {"is": 0.25, "en": 0.75}
