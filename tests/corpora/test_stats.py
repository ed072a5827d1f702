"""Statistics of a data folder: by hand on a small one, against the paper on the real one."""

import lzma
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgul.corpora import DataFolder, stats
from zgul.errors import ZgulError

GERMANIC = {
    "pos/en/train.tsv": "the DET\ncat NOUN\n\na DET\ndog NOUN\n\n",
    "pos/is/train.tsv": "hundur NOUN\n\n",
    "pos/de/train.tsv": "der DET\nHund NOUN\n\n",
    "pos/de/dev.tsv": "Hund NOUN\n\n",
    "pos/fo/test.tsv": "hundur NOUN\nhundur NOUN\nketta NOUN\nthe DET\n\n",
}


def folder(root, files: dict[str, str]):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(" ", "\t"), "utf-8")
    return root


def test_counts_by_hand(tmp_path):
    measured = stats.measure(folder(tmp_path, GERMANIC))
    (faroese,) = [row for row in measured.splits if row.language == "fo"]
    assert faroese == stats.SplitStats("pos", "fo", "test", 1, 4, 3, "Latin", ("DET", "NOUN"))
    (group,) = measured.groups
    assert (group.group, group.train, group.dev, group.missing) == ("germanic", 4, 1, ())
    (target,) = measured.targets
    assert target.overlap == 75.0  # of four running words, three are known
    assert (target.paper_sentences, target.paper_overlap) == (1208, 61.7)


def test_overlap_waits_for_every_source(tmp_path):
    del (files := dict(GERMANIC))["pos/is/train.tsv"]
    measured = stats.measure(folder(tmp_path, files))
    assert measured.groups[0].missing == ("is",)
    assert measured.targets[0].overlap is None


def test_english_of_the_indo_aryan_group_is_wikiann_where_it_is_there(tmp_path):
    files = {f"ner/{code}/train.tsv": f"{code} O\n\n" for code in ("en", "hi", "bn", "ur", "am", "sw", "wo")}
    files |= {
        "ner/as/test.tsv": "wiki B-LOC\nen O\n\n",
        "ner/ha/test.tsv": "wiki B-DATE\nen O\nam O\nx O\n\n",
    }
    assert [t.overlap for t in stats.measure(folder(tmp_path, files)).targets] == [50.0, 50.0]
    measured = stats.measure(folder(tmp_path, {"ner/en/panx.train.tsv": "wiki O\nen O\n\n"}))
    assert {t.language: t.overlap for t in measured.targets} == {"ha": 50.0, "as": 100.0}
    assert [row.tags for row in measured.splits if row.language == "as"] == [("LOC",)]


def test_order_of_files(tmp_path):
    names = ("test", "dev", "panx.dev", "few", "train", "odd", "panx.train")
    folder(tmp_path, {f"ner/en/{name}.tsv": "x O\n\n" for name in names})
    folder(tmp_path, {"pos/zz/train.conllu": "", "pos/zz/notes.md": "", "pos/zz/.train.tsv.tmp": ""})
    assert [key[2] for key in DataFolder(tmp_path).splits()] == [
        *("train", "train", "few", "dev", "test", "odd", "panx.train", "panx.dev")
    ]


def test_progress_is_reported(tmp_path):
    seen = []
    stats.measure(folder(tmp_path, GERMANIC), seen.append)
    assert [(status.done, status.total) for status in seen] == [(done, 5) for done in range(6)]


def test_a_bad_line_is_named(tmp_path):
    folder(tmp_path, {**GERMANIC, "pos/fo/test.tsv": "hundur NOUN\nketta NOUNN\n\n"})
    with pytest.raises(ZgulError, match=r"pos/fo/test\.tsv, line 2: 'NOUNN'"):
        stats.measure(tmp_path)


def test_a_cut_archive_is_named(tmp_path):
    path = tmp_path / "pos/fo/test.tsv.xz"
    path.parent.mkdir(parents=True)
    path.write_bytes(lzma.compress(b"hundur\tNOUN\n\n" * 9999)[:-40])
    with pytest.raises(ZgulError, match=r"pos/fo/test\.tsv\.xz.*damaged or cut short"):
        stats.measure(tmp_path)


def test_not_a_data_folder(tmp_path):
    with pytest.raises(ZgulError, match="no such folder"):
        stats.measure(tmp_path / "absent")
    with pytest.raises(ZgulError, match="no labelled data"):
        stats.measure(tmp_path)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("hundur 123 Ω", "Latin"),
        ("Москва is", "Cyrillic"),
        ("ভাৰত", "Bengali"),
        ("भोजपुरी", "Devanagari"),
        ("አማርኛ", "Ethiopic"),
        ("اردو", "Arabic"),
        ("𐌲𐌿𐍄", "Gothic"),
        ("12 , .", "none"),
    ],
)
def test_scripts(text, script):
    assert stats.dominant_script(Counter(text.split())) == script


def test_script_goes_by_running_words():
    assert stats.dominant_script(Counter({"да": 5, "hundur": 1})) == "Cyrillic"


@given(st.lists(st.text("ab", min_size=1)), st.lists(st.lists(st.text("ab", min_size=1)), max_size=3))
def test_overlap_is_the_share_of_known_words(test, sources):
    share = stats.overlap(Counter(test), map(Counter, sources))
    known = [word for word in test if any(word in source for source in sources)]
    assert share == pytest.approx(100 * len(known) / len(test) if test else 0)


@pytest.mark.slow
def test_the_papers_tables(shared_data):
    measured = stats.measure(shared_data)
    targets = {row.language: row for row in measured.targets}
    assert set(targets) == set(stats.PAPER_TESTS)
    for code, row in targets.items():
        assert row.sentences == row.paper_sentences, code
        if code != "qpm":  # the paper says Cyrillic; the file is in Latin script
            assert row.script == row.paper_script, code
        assert row.overlap == pytest.approx(row.paper_overlap, abs=7.5), code
    assert targets["as"].overlap == 44.1  # to the digit
    errors = [abs(row.overlap - row.paper_overlap) for row in targets.values()]
    assert sum(errors) / len(errors) < 3
    assert {group.group for group in measured.groups} == set(stats.PAPER_TRAIN_DEV)
    assert {g.group: g.test_tags for g in measured.groups}["african"] == ("DATE", "LOC", "ORG", "PER")
