"""Every number of a table is the one of the store."""

import json
import statistics
from dataclasses import replace

import pytest

import invented_results
from zgul.evaluation import mcnemar, mean_std, scores
from zgul.experiments.report import claims, paper, tables
from zgul.experiments.report.analyses import compute
from zgul.experiments.report.build import build
from zgul.experiments.report.document import Cell, Items, Prose
from zgul.experiments.report.frame import Frame, closest_baseline
from zgul.experiments.store import Store
from zgul.languages import similarity


@pytest.fixture(scope="module")
def analyses(invented):
    return compute(invented, None)


@pytest.fixture(scope="module")
def frame(invented):
    return Frame(invented)


def cells(table, row):
    return next(item.cells for item in table.rows if item.title == row)


def by_seed(store, part, group, row):
    """F1 by seed and language, read without the report's code."""
    runs = {run.hash: run for run in store.runs(part=part, group=group)}
    found = {}
    for score in store.scores(row=row):
        if score.run in runs:
            found.setdefault(runs[score.run].seed, {})[score.language] = score.f1
    return found


@pytest.mark.parametrize("part", ["zero-shot", "treated"])
@pytest.mark.parametrize("group", ["germanic", "african"])
def test_zero_shot_has_means_deviations_and_the_papers_numbers(invented, frame, analyses, part, group):
    table = tables.zero_shot_table(frame, part, group, analyses["mcnemar"])
    languages = [column.title.lower() for column in table.columns[:-1]]
    for row in ("SFT-En", "CPG", "ZGUL", "ZGUL w/o F"):
        found = by_seed(invented, part, group, row)
        for code, cell in zip(languages, cells(table, row), strict=False):
            values = [found[seed][code] for seed in (0, 1)]
            assert cell.value == pytest.approx(statistics.mean(values))
            assert cell.std == pytest.approx(statistics.stdev(values))
            assert cell.paper == paper.ZERO_SHOT[group].get(row, code)
            assert cell.paper_std == paper.DEVIATIONS[group].get(row, code)
        averages = [statistics.mean(found[seed].values()) for seed in (0, 1)]
        assert cells(table, row)[-1].value == pytest.approx(statistics.mean(averages))
        assert cells(table, row)[-1].std == pytest.approx(statistics.stdev(averages))
    assert {row.title for row in table.rows} >= {*paper.ZERO_SHOT[group].values, "MADX^multi-En"}


def test_the_best_of_each_column_is_bold(frame, analyses):
    table = tables.zero_shot_table(frame, "zero-shot", "germanic", analyses["mcnemar"])
    for column in range(len(table.columns)):
        values = [round(row.cells[column].value, 1) for row in table.rows]
        assert [row.cells[column].bold for row in table.rows] == [value == max(values) for value in values]


def test_equals_are_all_bold_and_nothing_is_where_nothing_was_measured():
    rows = [(Cell(50.04), Cell()), (Cell(49.96), Cell(paper=1.0)), (Cell(49.9), Cell())]
    done = tables.embolden([tables_row(items) for items in rows])
    assert [row.cells[0].bold for row in done] == [True, True, False]
    assert not any(row.cells[1].bold for row in done)


def tables_row(items):
    from zgul.experiments.report.document import Row

    return Row("a row", items)


def test_mcnemar_counts_are_those_of_the_pooled_words(invented, analyses):
    gold, own, other = [], [], []
    runs = {(run.method, run.seed): run.hash for run in invented.runs(part="zero-shot", group="african")}
    for code in ("ha", "ig", "rw", "lg", "luo", "pcm"):
        gold += [sentence.tags for sentence in invented.gold("african", code)]
        own += invented.predictions(runs["zgul", 1], "ZGUL", code)
        other += invented.predictions(runs["cpg", 1], "CPG", code)
    test = mcnemar(gold, own, other)
    wanted = {"part": "zero-shot", "group": "african", "row": "CPG", "seed": 1}
    (found,) = [count for count in analyses["mcnemar"] if wanted.items() <= count.items()]
    assert (found["only_zgul"], found["only_row"]) == (test.only_first, test.only_second)
    assert found["words"] == sum(map(len, gold))


def test_examples_are_where_the_methods_differ_most(invented, analyses):
    runs = {run.method: run.hash for run in invented.runs(part="zero-shot", group="germanic", seed=0)}
    said = [
        invented.predictions(runs[m], row, "fo") for m, row in (("zgul", "ZGUL"), ("cpg", "CPG"), ("sft-m", "SFT-M"))
    ]
    disputes = [
        sum(len(set(word)) > 1 for word in zip(*tags, strict=True)) if 4 <= len(tags[0]) <= 12 else -1
        for tags in zip(*said, strict=True)
    ]
    found = [item for item in analyses["examples"] if item["language"] == "fo"]
    assert len(found) == 2
    assert [disputes[item["sentence"] - 1] for item in found] == sorted(disputes, reverse=True)[:2]


def test_correlation_is_pearsons_over_all_pairs(frame):
    weights = {"fo": {"en": 0.1, "is": 0.7, "de": 0.2}, "gsw": {"en": 0.2, "is": 0.2, "de": 0.6}}
    pairs = [(w, similarity(target, source)) for target, row in weights.items() for source, w in row.items()]
    assert tables.correlation(weights) == pytest.approx(statistics.correlation(*zip(*pairs, strict=True)))
    assert tables.correlation({"fo": dict.fromkeys(("en", "is", "de"), 1 / 3)}) is None
    table = tables.correlations(frame)
    assert [cell.paper for cell in cells(table, "Germanic")] == [0.57, 0.45, 0.23]


def test_few_shot_averages_only_languages_with_every_size(tmp_path):
    store = invented_results.fill(
        tmp_path, groups=("slavic",), seeds=(0,), parts=("zero-shot", "few-shot"), sentences=5
    )
    frame = Frame(store)
    assert tables.few_shot_languages(frame, "slavic") == ["qpm", "orv", "cu"]  # hsb has 10 examples only
    table = tables.few_shot_table(frame, "slavic")
    assert [column.title for column in table.columns] == ["0", "10", "30", "70", "100"]
    found = by_seed(store, "zero-shot", "slavic", "CPG")[0]
    assert cells(table, "CPG")[0].value == pytest.approx(statistics.mean(found[c] for c in ("qpm", "orv", "cu")))


def test_the_newest_of_equal_runs_counts(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    (old,) = store.runs(method="cpg")
    new = replace(old, hash="f" * 64, name="the same with other settings", status="planned")
    store.plan([new])
    store.start(new.hash)
    for score in store.scores(run=old.hash):
        store.add_score(replace(score, run=new.hash, f1=12.3), store.predictions(old.hash, "CPG", score.language))
    assert Frame(store).entries("zero-shot", "germanic", "CPG")[0].run.hash == old.hash  # not done yet
    store.finish(new.hash, 1.0, {})
    assert [entry.score.f1 for entry in Frame(store).entries("zero-shot", "germanic", "CPG")] == [12.3] * 3


def test_encoders_are_kept_apart(tmp_path):
    for name in ("embedded", "some/folder/xlm-r"):
        store = invented_results.fill(
            tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4, encoder=name
        )
    frame = Frame(store)
    table = tables.encoders(frame)
    titles = [column.title for column in table.columns]
    assert sorted(titles) == ["XLM-R (paper)", "embedded", "mBERT (paper)", "xlm-r"]
    assert len(frame.entries("zero-shot", "germanic", "CPG")) == 3
    assert cells(table, "ZGUL")[titles.index("XLM-R (paper)")].value == 52.2


def clear_cut(tmp_path, winner) -> Store:
    """ZGUL right everywhere and the others seldom, or the other way round."""
    skill = dict.fromkeys(invented_results.SKILL, 0.3) | {winner: 0.97}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invented_results, "SKILL", skill)
        return invented_results.fill(tmp_path, groups=("germanic",), seeds=(0, 1), parts=("zero-shot",), sentences=20)


def test_attention_is_judged_for_both_networks(frame, monkeypatch):
    seen = {"lang2vec": 0.61, "fusion": -0.6, "emea": 0.9}
    monkeypatch.setattr(claims, "group_correlation", lambda frame, kind, group: mean_std([seen[kind]] * 2))
    rule, germanic, *_ = claims.attention(frame)
    assert "Lang2Vec's weights follow relatedness in 2 of 2 groups and Fusion's in 0" in rule
    assert germanic.startswith("**Germanic: Lang2Vec yes, Fusion reversed.** Correlation: Lang2Vec 0.61 ± 0.00 (paper")
    assert "Fusion −0.60" in germanic
    for correlation, answer in ((0.5, "yes"), (0.49, "weakly"), (0.19, "no"), (-0.19, "no"), (-0.2, "reversed")):
        assert claims._follows(correlation) == answer


def test_claims_hold_where_the_difference_is_clear(tmp_path):
    store = clear_cut(tmp_path, "ZGUL")
    counts = compute(store, None)["mcnemar"]
    whole, germanic = claims.first_in_group(Frame(store), "zero-shot", counts)
    assert "in 1 of 1 groups" in whole
    assert germanic.startswith("**Germanic: holds.** ZGUL ")
    assert "p < 0.0001 at most, for ZGUL" in germanic
    own = by_seed(store, "zero-shot", "germanic", "ZGUL")
    assert f"ZGUL {statistics.mean(statistics.mean(v.values()) for v in own.values()):.1f}," in germanic
    assert germanic.endswith("Paper: +1.8 over CPG, p < 0.005.")
    helped = claims.components(Frame(store), "zero-shot", counts)
    assert sum(sentence.startswith("**") and "holds.**" in sentence for sentence in helped) == 3
    mark = cells(tables.zero_shot_table(Frame(store), "zero-shot", "germanic", counts), "ZGUL")[-1].mark
    assert mark == "*"


def test_claims_do_not_hold_where_a_baseline_wins(tmp_path):
    store = clear_cut(tmp_path, "SFT-M")
    counts = compute(store, None)["mcnemar"]
    assert closest_baseline(Frame(store), "zero-shot", "germanic") == "SFT-M"
    whole, germanic = claims.first_in_group(Frame(store), "zero-shot", counts)
    assert "in 0 of 1 groups" in whole
    assert germanic.startswith("**Germanic: does not hold.**")
    assert "against ZGUL" in germanic
    mark = cells(tables.zero_shot_table(Frame(store), "zero-shot", "germanic", counts), "ZGUL")[-1].mark
    assert mark == ""


def test_parts_without_runs_say_what_fills_them(tmp_path):
    store = Store(tmp_path, create=True)
    report = build(store, compute(store, None))
    for section in report.main.sections:
        told = [block.text for block in section.blocks if isinstance(block, Prose)]
        assert any("zgul " in text and "makes them" in text for text in told), section.title
    assert report.pages == {}


def test_a_store_with_one_part_leaves_the_others_out(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    report = build(store, compute(store, None))
    sections = {section.anchor: section for section in report.main.sections}
    assert sections["few-shot"].blocks == (
        Prose("No results yet: `zgul experiment paper --data DIR --output DIR --only few-shot` makes them."),
    )
    assert any(isinstance(block, Items) for block in sections["claims"].blocks)
    assert len(sections["zero-shot"].blocks) == 2


def test_class_table_is_the_mean_over_languages(invented, frame):
    table = tables.classes(frame, "ner")
    runs = {run.seed: run.hash for run in invented.runs(part="zero-shot", group="african", method="zgul")}
    means = []
    for code in runs.values():
        f1 = []
        for language in ("ha", "ig", "rw", "lg", "luo", "pcm"):
            gold = [sentence.tags for sentence in invented.gold("african", language)]
            classes = scores(gold, invented.predictions(code, "ZGUL", language)).per_class
            f1 += [classes["LOC"]["f1"]] if classes.get("LOC", {"support": 0})["support"] else []
        means.append(statistics.mean(f1))
    assert cells(table, "LOC")[0].value == pytest.approx(statistics.mean(means))
    assert cells(table, "LOC")[0].paper == 55.2


def test_analyses_are_plain_json(analyses):
    assert json.loads(json.dumps(analyses)) == analyses
