"""Comparing two systems, from Python and as ``zgul compare``; ``zgul report`` as a user calls it."""

import json
from dataclasses import asdict

import pytest

import invented_results
from command_line import zgul as call
from zgul.corpora import Sentence, columns
from zgul.errors import ZgulError
from zgul.evaluation import bootstrap_f1, mcnemar
from zgul.paper.comparison import compare_runs
from zgul.paper.export import export_results


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare: a folder")
    return invented_results.fill(folder, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=15)


def run_of(store, method):
    (run,) = store.runs(method=method)
    return run


def test_two_runs(store):
    zgul, cpg = run_of(store, "zgul"), run_of(store, "cpg")
    told = json.loads(call("compare", f"{store.folder}:{zgul.hash[:12]}:ZGUL", f"{store.folder}:{cpg.name}", "--json"))
    assert [row["language"] for row in told["rows"]] == ["fo", "got", "gsw", "all"]
    gold = [sentence.tags for sentence in store.gold("germanic", "got")]
    a, b = store.predictions(zgul.hash, "ZGUL", "got"), store.predictions(cpg.hash, "CPG", "got")
    difference, test = bootstrap_f1(gold, a, b), mcnemar(gold, a, b)
    row = told["rows"][1]
    assert (row["difference"], row["low"], row["high"]) == (difference.f1, difference.low, difference.high)
    assert (row["only_first_right"], row["only_second_right"], row["p"]) == (test.only_first, test.only_second, test.p)
    assert told["rows"][3]["words"] == sum(row["words"] for row in told["rows"][:3])


def test_python_and_the_command_say_the_same_and_so_does_an_export(store, tmp_path):
    zgul, cpg = run_of(store, "zgul").hash[:12], run_of(store, "cpg").hash[:12]
    found = compare_runs(f"{store.folder}:{zgul}:ZGUL", f"{store.folder}:{cpg}", samples=50)
    printed = call("compare", f"{store.folder}:{zgul}:ZGUL", f"{store.folder}:{cpg}", "--samples", 50, "--json")
    assert json.loads(printed) == asdict(found)
    export_results(store.folder, tmp_path / "all.json.gz", sentences=False)
    place = tmp_path / "all.json.gz"
    assert compare_runs(f"{place}:{zgul}:ZGUL", f"{place}:{cpg}", samples=50).rows == found.rows


def test_a_table_for_people(store):
    zgul = run_of(store, "zgul").hash[:12]
    text = call("compare", f"{store.folder}:{zgul}:ZGUL", f"{store.folder}:{zgul}:ZGUL w/o EM", "--samples", 50)
    assert "first:  ZGUL, " in text and "second: ZGUL w/o EM, " in text
    assert "On the whole: " in text


def test_words_and_chunks_may_disagree(tmp_path):
    """Many words right of one long entity that is still wrong: more words, no more F1."""
    gold = ["B-PER", *["I-PER"] * 29, "O"]
    for name, told in (("gold", gold), ("one", [*gold[:-2], "O", "O"]), ("none", ["O"] * 31)):
        columns.write(tmp_path / f"{name}.tsv", [Sentence([f"w{n}" for n in range(31)], told)] * 5)
    files = [tmp_path / "one.tsv", tmp_path / "none.tsv", "--gold", tmp_path / "gold.tsv", "--task", "ner"]
    text = " ".join(call("compare", *files).split())
    assert "On the whole: no difference in F1 beyond chance" in text
    assert "By words (McNemar, p < 0.005) the first is right more often" in text


def test_two_files(tmp_path):
    words = [f"w{n}" for n in range(30)]
    tags = ["NOUN", "VERB", "ADP"] * 10
    for name, told in (("gold", tags), ("good", tags), ("bad", ["NOUN"] * 30)):
        columns.write(tmp_path / f"{name}.tsv", [Sentence(words, told)] * 5)
    told = json.loads(
        call("compare", tmp_path / "good.tsv", tmp_path / "bad.tsv", "--gold", tmp_path / "gold.tsv", "--json")
    )
    (row,) = told["rows"]
    assert row["first_f1"] == 100.0
    assert row["only_first_right"] == 100 and row["only_second_right"] == 0
    assert row["low"] > 0 and row["p"] < 0.0001
    with pytest.raises(ZgulError, match="--gold FILE"):
        call("compare", tmp_path / "good.tsv", tmp_path / "bad.tsv")
    columns.write(tmp_path / "other.tsv", [Sentence(["x"], ["NOUN"])])
    with pytest.raises(ZgulError, match="do not hold the same words"):
        call("compare", tmp_path / "good.tsv", tmp_path / "other.tsv", "--gold", tmp_path / "gold.tsv")


def test_mistakes_are_told(store, tmp_path):
    zgul = run_of(store, "zgul").hash[:12]
    own = f"{store.folder}:{zgul}:ZGUL"
    for place, message in (
        (f"{store.folder}:zz", "no finished run 'zz'; there are:"),
        (f"{store.folder}:{zgul}", "has several rows; choose one"),
        (f"{store.folder}:{zgul}:CPG", r"has no row 'CPG'; choose one with .*ROW: ZGUL"),
        (str(store.folder / "runs"), "no such file, and no results before a colon"),
        (f"{tmp_path}:abc", "holds no results"),
        (str(tmp_path), "name one of its runs"),
    ):
        with pytest.raises(ZgulError, match=message):
            call("compare", own, place)


def test_report_by_command(store, tmp_path):
    text = call("report", store.folder, "--output", tmp_path / "out", "--format", "md,latex")
    assert (tmp_path / "out" / "report.md").is_file()
    assert "files in" in text
    old = tmp_path / "old.json"
    export_results(store.folder, old)
    call("report", store.folder, "-o", tmp_path / "out", "--format", "md", "--earlier", f"then={old}", "--label", "now")
    assert "| Claim | then | now |" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    with pytest.raises(ZgulError, match="--earlier takes NAME=RESULTS, not 'then'"):
        call("report", store.folder, "--output", tmp_path / "out", "--earlier", "then")
    with pytest.raises(AssertionError, match="Missing option '--output'"):
        call("report", store.folder)
