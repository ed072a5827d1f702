"""Every number of a table is the one of the store."""

import json
import statistics
from dataclasses import replace
from types import SimpleNamespace

import pytest

import invented_results
from zgul.corpora import Sentence
from zgul.evaluation import mcnemar, scores
from zgul.languages import similarity
from zgul.paper import numbers
from zgul.paper.export import analyse
from zgul.paper.frame import Frame, choose_tuned
from zgul.paper.report import build_report, departures, head, open_results, side_by_side, tables
from zgul.paper.report.document import Cell, table
from zgul.paper.store import DONE, Store, StoredRun


def cells(table, row):
    return table.rows[row]


def columns(table):
    return [title for _, title in table.heads]


def by_seed(store, group, row, part="zero-shot"):
    """F1 by seed and language, read without the report's code."""
    runs = {run.hash: run for run in store.runs(part=part, group=group)}
    found = {}
    for score in store.scores(row=row):
        if score.run in runs:
            found.setdefault(runs[score.run].seed, {})[score.language] = score.f1
    return found


@pytest.mark.parametrize(("task", "group"), [("pos", "germanic"), ("ner", "african")])
def test_zero_shot_has_means_deviations_and_the_papers_numbers(invented, frame, task, group):
    table = tables.zero_shot_table(frame, task)
    languages = [title.lower() for title in columns(table)[:-1]]
    for row in ("SFT-En", "CPG", "ZGUL", "ZGUL w/o F"):
        found = by_seed(invented, group, row)
        for code, cell in zip(languages, cells(table, row), strict=False):
            values = [found[seed][code] for seed in (0, 1)]
            assert cell.value == pytest.approx(statistics.mean(values))
            assert cell.std == pytest.approx(statistics.stdev(values))
            assert cell.paper == numbers.ZERO_SHOT[group].get(row, code)
            assert cell.paper_std == numbers.DEVIATIONS[group].get(row, code)
        averages = [statistics.mean(found[seed].values()) for seed in (0, 1)]
        assert cells(table, row)[-1].value == pytest.approx(statistics.mean(averages))
        assert cells(table, row)[-1].std == pytest.approx(statistics.stdev(averages))
        assert cells(table, row)[-1].paper == numbers.printed_average(group, row)
    assert {*table.rows} >= {*numbers.ZERO_SHOT[group].values, "MADX^multi-En"}


def test_groups_stand_side_by_side_with_gaps_where_one_lacks_a_row(tmp_path):
    store = invented_results.fill(
        tmp_path, groups=("germanic", "slavic"), seeds=(0,), parts=("zero-shot",), sentences=3
    )
    (cpg,) = store.runs(group="slavic", method="cpg")
    store.forget_scores(cpg.hash)
    table = tables.zero_shot_table(Frame(store), "pos")
    assert table.spans == [("Germanic", 4), ("Slavic", 5)]
    assert [cell.value is None for cell in cells(table, "CPG")] == [False] * 4 + [True] * 5
    assert [cell.paper for cell in cells(table, "ZGUL")] == [76.9, 20.2, 64.8, 54.0, 50.7, 76.8, 63.0, 34.4, 56.2]


def test_the_papers_average_is_left_out_where_it_is_over_other_languages(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=3)
    kept = [(score, []) for score in store.scores() if score.language != "got"]
    for run in store.runs():
        store.forget_scores(run.hash)
    for score, tags in kept:
        store.add_score(score, tags)
    table = tables.zero_shot_table(Frame(store), "pos")
    assert [cell.paper for cell in cells(table, "ZGUL")] == [76.9, 64.8, None]


def test_the_best_of_each_column_is_bold(frame):
    table = tables.zero_shot_table(frame, "pos")
    for column in zip(*table.rows.values(), strict=True):
        values = [round(cell.value, 1) for cell in column]
        assert [cell.bold for cell in column] == [value == max(values) for value in values]


def test_equals_are_all_bold_and_nothing_is_where_nothing_was_measured():
    rows = {"a": (50.04, None), "b": (49.96, Cell(paper=1.0)), "c": (49.9, None)}
    done = table("runs", rows, ("", "measured", "not"), best=True).rows.values()
    assert [cells[0].bold for cells in done] == [True, True, False]
    assert not any(cells[1].bold for cells in done)


def test_mcnemar_counts_are_those_of_the_pooled_words(invented, frame):
    gold, own, other = [], [], []
    runs = {(run.method, run.seed): run.hash for run in invented.runs(part="zero-shot", group="african")}
    for code in ("ha", "ig", "rw", "lg", "luo", "pcm"):
        gold += [sentence.tags for sentence in invented.gold("african", code)]
        own += invented.predictions(runs["zgul", 1], "ZGUL", code)
        other += invented.predictions(runs["cpg", 1], "CPG", code)
    test = mcnemar(gold, own, other)
    wanted = {"part": "zero-shot", "group": "african", "row": "CPG", "seed": 1}
    (found,) = [count for count in frame.analyses["mcnemar"] if wanted.items() <= count.items()]
    assert (found["only_zgul"], found["only_row"]) == (test.only_first, test.only_second)
    assert found["words"] == sum(map(len, gold))


def test_examples_are_where_the_methods_differ_most(invented, frame):
    runs = {run.method: run.hash for run in invented.runs(part="zero-shot", group="germanic", seed=0)}
    said = [
        invented.predictions(runs[m], row, "fo") for m, row in (("zgul", "ZGUL"), ("cpg", "CPG"), ("sft-m", "SFT-M"))
    ]
    disputes = [
        sum(len(set(word)) > 1 for word in zip(*tags, strict=True)) if 4 <= len(tags[0]) <= 12 else -1
        for tags in zip(*said, strict=True)
    ]
    found = [item for item in frame.analyses["examples"] if item["language"] == "fo"]
    assert len(found) == 2
    assert [disputes[item["sentence"] - 1] for item in found] == sorted(disputes, reverse=True)[:2]


def test_the_papers_examples_are_looked_up_in_the_test_files(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    assert analyse(store)["paper_examples"] == []
    (gsw,) = [example for example in numbers.EXAMPLES if example.language == "gsw"]
    sentences = store.gold("germanic", "gsw")
    tags = [tag.replace("CONJ", "CCONJ") for tag in gsw.tags["gold"].split()]
    store.add_gold("germanic", "gsw", [*sentences[:3], Sentence(gsw.words.split(), tags)])
    for score in store.scores(language="gsw"):
        said = [sentence.tags for sentence in store.gold("germanic", "gsw")[:3]]
        store.add_score(score, [*said, ["NOUN"] * len(tags)])
    frame = open_results(tmp_path)
    (found,) = frame.analyses["paper_examples"]
    assert (found["sentence"], found["words"], found["gold"]) == (4, gsw.words.split(), tags)
    table = tables.example_table(found)
    assert [cell.bold for cell in cells(table, "ZGUL")] == [tag != "NOUN" for tag in tags]
    assert "CPG DET PROPN VERB ADV ADP DET ADP DET NOUN PUNCT" in table.caption
    assert table in sections(build_report(frame))["Examples"]


def test_pieces_of_an_example_must_stand_in_their_order():
    words = [
        *["Jami'an", "tsaron", "Lebanon", "sun", "ce"],
        *["Jakadancin", "Amurka", "da", "ke", "birnin", "Beirut", "."],
    ]
    (hausa,) = [example for example in numbers.EXAMPLES if example.language == "ha"]
    assert hausa.stands_in(words)
    assert not hausa.stands_in(words[5:] + words[:5])
    assert not hausa.stands_in(words[1:])
    assert not hausa.stands_in(["x" + words[0], *words[1:]])


def test_the_papers_examples_stand_in_its_test_files(shared_data):
    """All three are found in the data at hand."""
    from zgul.corpora import DataFolder

    for example in numbers.EXAMPLES:
        test = DataFolder(shared_data).sentences(
            "pos" if example.language == "gsw" else "ner", example.language, "test"
        )
        assert sum(example.stands_in(sentence.words) for sentence in test) == 1, example.language


def sections(report):
    return report["index"].sections


def tuning_run(group, method, rate, dev_f1, **extra):
    name = f"{group}{method}{rate}{extra}"
    facts = {"dev_f1": dev_f1}
    return StoredRun(name, "tuning", group, method, 0, name, {}, {"rate": rate} | extra, "done", facts=facts)


def test_tuning_takes_the_best_epoch_averaged_over_groups_and_of_equals_the_smaller_rate():
    runs = [
        tuning_run("germanic", "zgul", 1e-3, [10.0, 60.0, 50.0], reduction=3.0),
        tuning_run("slavic", "zgul", 1e-3, [70.0], reduction=3.0),  # mean of the best: 65
        tuning_run("germanic", "zgul", 5e-4, [66.0], reduction=3.0),
        tuning_run("slavic", "zgul", 5e-4, [64.0], reduction=3.0),  # 65 too, at a smaller rate
        tuning_run("germanic", "zgul", 2e-3, [99.0], reduction=3.0),  # lacks a group
        tuning_run("african", "zgul", 2e-3, [50.0], reduction=3.0),  # another task
        tuning_run("germanic", "sft-m", 1e-4, [40.0]),
    ]
    pos, ner, sft = choose_tuned(runs)
    assert (pos.task, pos.method, pos.groups) == ("pos", "zgul", ("germanic", "slavic"))
    assert pos.dev_f1 == {(5e-4, 3.0): 65.0, (1e-3, 3.0): 65.0}
    assert pos.chosen == (5e-4, 3.0) and ner.chosen == (2e-3, 3.0) and sft.chosen == (1e-4, None)


def test_the_table_of_tuned_rates_marks_the_chosen_one(frame):
    table = tables.tuning_table(frame, "pos")
    assert columns(table) == ["5e-5", "1e-4", "5e-4", "1e-3"]
    assert [*table.rows] == ["sft-m", "zgul, reduction 3", "zgul, reduction 4"]
    chosen = {(title, n) for title, cells in table.rows.items() for n, cell in enumerate(cells) if cell.mark}
    assert chosen == {("sft-m", 1), ("zgul, reduction 3", 3)}
    assert cells(table, "zgul, reduction 3")[3].value == pytest.approx(90.0)
    rule, *_ = sections(build_report(frame))["Tuning"]
    assert "Of equals, the smaller rate" in rule and "before any target was scored" in rule


def test_em_is_counted_where_it_was_chosen(invented, frame):
    table = tables.em_choices_table(frame)
    choices, chosen, ties, dev_chosen, dev, chosen_gain, gain = cells(table, "ZGUL")
    gains, used = [], []
    for run in invented.runs(part="zero-shot", method="zgul"):
        f1 = {(score.row, score.language): score.f1 for score in invented.scores(run=run.hash)}
        for code, settings in run.facts["em"]["ZGUL"].items():
            gains.append(f1["ZGUL", code] - f1["ZGUL w/o EM", code])
            used += [gains[-1]] if settings["steps"] else []
    assert (choices.value, chosen.value, ties.value) == (len(gains), len(used), 0)
    assert (dev_chosen.value, dev.value) == (1.0, pytest.approx(len(used) / len(gains)))
    assert chosen_gain.value == pytest.approx(statistics.mean(used))
    assert gain.value == pytest.approx(statistics.mean(gains))


def test_the_gain_of_the_releases_em_is_split_only_where_it_was_chosen(tmp_path):
    """Where T = 0 was chosen, the row is the model without EM. Its distance to the control is no gain of entropy."""
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=6)
    rows = ("ZGUL, EM from probabilities", "ZGUL, EM T=1 lr=0 from probabilities", "ZGUL w/o EM")
    released, control, without = (by_seed(store, "germanic", row)[0] for row in rows)

    def split():
        return cells(tables.em_gains_table(open_results(tmp_path)), "Germanic")[-3:]

    for language, count in (("fo", 2), ("got", 1)):
        (score,) = store.scores(row=rows[0], language=language)
        store.add_score(replace(score, em={"steps": 0, "lr": 0.0}), None)
        targets, flattening, entropy = split()
        left = [code for code, kept in (("got", count == 2), ("gsw", True)) if kept]
        assert targets.text == f"{count} of 3"
        assert flattening.value == pytest.approx(statistics.mean(control[code] - without[code] for code in left))
        assert entropy.value == pytest.approx(statistics.mean(released[code] - control[code] for code in left))
    (score,) = store.scores(row=rows[0], language="gsw")
    store.add_score(replace(score, em={"steps": 0, "lr": 0.0}), None)
    targets, flattening, entropy = split()
    assert (targets.text, flattening.value, entropy.value) == ("0 of 3", None, None)


def test_variants_stand_beside_zgul_with_dev_sets_and_targets(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0, 1), sentences=6)
    for part, best in (("zero-shot", 90.0), ("variants", 91.0)):
        for run in store.runs(part=part, method="zgul"):
            store.update(run.hash, facts=run.facts | {"dev_f1": [80.0, best + run.seed, 85.0]})
    table = tables.variants_table(open_results(tmp_path))
    assert [*table.rows] == ["ZGUL", "ZGUL, random start"]
    for title, part, dev in (("ZGUL", "zero-shot", 90.5), ("ZGUL, random start", "variants", 91.5)):
        found = by_seed(store, "germanic", "ZGUL", part)
        expected = statistics.mean(statistics.mean(values.values()) for values in found.values())
        assert [cell.value for cell in cells(table, title)[:2]] == [pytest.approx(dev), pytest.approx(expected)]
    assert table in sections(build_report(open_results(tmp_path)))["Variants"]


def test_what_tuning_leaves_open_is_said():
    runs = [
        tuning_run("germanic", "zgul", 5e-4, [60.0], reduction=3.0),  # the smallest, and one reduction alone
        tuning_run("germanic", "zgul", 1e-3, [50.0], reduction=3.0),
        tuning_run("germanic", "madx", 5e-4, [50.0], reduction=3.0),
        tuning_run("germanic", "madx", 1e-3, [60.0], reduction=3.0),
        tuning_run("germanic", "madx", 2e-3, [50.0], reduction=3.0),
        tuning_run("germanic", "madx", 1e-3, [40.0], reduction=4.0),
        tuning_run("african", "sft-m", 1e-4, [40.0]),
        tuning_run("african", "sft-m", 2e-4, [50.0]),
    ]
    reductions, edges = tables.tuning_limits(SimpleNamespace(runs_of=lambda part: runs))
    assert "not tried for zgul (POS)." in reductions
    assert "for zgul (POS) 5e-4, sft-m (NER) 2e-4." in edges


def test_earlier_protocols_stand_beside_and_changed_verdicts_are_bold(tmp_path):
    then, now = clear_cut(tmp_path / "then", "SFT-M"), clear_cut(tmp_path / "now", "ZGUL")
    then.note(protocol={"limit": 6000, "epochs": 4, "em_steps": [1, 5]})
    now.note(protocol={"limit": 0, "epochs": 4, "em_steps": [0, 1, 5]})
    frames = {"cut protocol": open_results(then.folder), "whole": open_results(now.folder)}
    table, averages, settings = tables.earlier_tables(frames)
    first = cells(table, "ZGUL is first, Germanic")
    assert [cell.bold for cell in first] == [True, False]
    assert first[0].text.endswith("(does not hold)") and first[1].text.endswith("(holds)")
    found = by_seed(then, "germanic", "CPG")
    expected = statistics.mean(statistics.mean(values.values()) for values in found.values())
    assert cells(averages, "CPG")[0].value == pytest.approx(expected)
    assert {title: [cell.text for cell in row] for title, row in settings.rows.items()} == {
        "limit": ["6000", "0"],
        "em_steps": ["1, 5", "0, 1, 5"],
    }
    report = build_report(frames["whole"], {"cut protocol": frames["cut protocol"]}, "whole")
    assert sections(report)["Earlier protocols"] == [table, averages, settings]
    assert tables.earlier_tables({"whole": frames["whole"]}) == []


def test_every_departure_is_named(tmp_path):
    store = Store(tmp_path, create=True)
    protocol = {"limit": 96, "test_limit": 24, "epochs": 4, "em_rates": [1.0, 30.0], "batch_size": 32, "accumulate": 4}
    store.note(protocol=protocol, encoder="small")
    told = departures(Frame(store))
    assert list(told) == [
        "encoder", "size", "rates", "EM's range", "starts", "language adapters", "corpora", "CPG's form", "probes",
    ]  # fmt: skip
    for words in ("at most 96 training sentences", "at most 24 test sentences", "4 epochs (paper: 5 for POS"):
        assert words in told["size"]
    assert "not tuned" in told["rates"] and "batches of 128" in told["rates"]
    assert "1.0, 30.0 (paper: 0.05, 0.1, 0.5, 1.0)" in told["EM's range"]
    for words in ("likeness", "[I I]/2", "zero", "head's bias"):
        assert words in told["starts"]
    assert "test files" in told["probes"]
    assert all(name in head(Frame(store))["departures from the paper"] for name in told)
    store.plan([replace(tuning_run("germanic", "zgul", 1e-3, [1.0]), config={})])
    assert "tuned on the dev sets of the sources" in departures(Frame(store))["rates"]
    for encoder, name in (("bert-base", "bert-base"), ("used.q4.safetensors", "multilingual-e5-small")):
        store.note(encoder=encoder)
        assert departures(Frame(store))["encoder"].startswith(name)


def test_the_papers_grid_of_em_is_no_departure(tmp_path):
    store = Store(tmp_path, create=True)
    store.note(protocol={"em_steps": [1, 5, 10], "em_rates": [0.05, 0.1, 0.5, 1.0]})
    told = departures(Frame(store))
    assert "EM's range" not in told and "size" not in told


def test_correlation_is_pearsons_over_all_pairs():
    weights = {"fo": {"en": 0.1, "is": 0.7, "de": 0.2}, "gsw": {"en": 0.2, "is": 0.2, "de": 0.6}}
    pairs = [(w, similarity(target, source)) for target, row in weights.items() for source, w in row.items()]
    expected = statistics.correlation(*zip(*pairs, strict=True))
    assert tables.correlation(weights) == pytest.approx(expected)
    assert tables.correlation({"fo": dict.fromkeys(("en", "is", "de"), 1 / 3)}) is None


def test_correlations_have_the_untrained_value_and_random_starts(invented, frame):
    table = tables.correlation_table(frame)
    assert [*table.rows] == [
        "Germanic", "African", "Germanic, random start", "African, random start",
    ]  # fmt: skip
    assert [cell.paper for cell in cells(table, "Germanic")] == [0.57, None, 0.45, None, 0.23, None]
    for part, title in (("zero-shot", "Germanic"), ("variants", "Germanic, random start")):
        runs = invented.runs(part=part, group="germanic", method="zgul")
        for place, facts in enumerate(("weights", "weights_untrained")):
            values = [tables.correlation(run.facts[facts]["fusion"]) for run in runs]
            assert cells(table, title)[2 + place].value == pytest.approx(statistics.mean(values))


def test_attention_is_concluded_from_random_starts_where_there_are_some(tmp_path):
    def told(parts):
        store = invented_results.fill(tmp_path / str(len(parts)), groups=("germanic",), seeds=(0,), parts=parts)
        return tables.attention_summary(Frame(store))[0]

    assert "from starts at typological likeness – Lang2Vec: " in told(("zero-shot",))
    assert "from random starts – Lang2Vec: " in told(("zero-shot", "variants"))
    for correlation, answer in ((0.5, "yes"), (0.49, "weakly"), (0.19, "no"), (-0.19, "no"), (-0.2, "in reverse")):
        assert tables.follows(correlation) == answer


def test_few_shot_averages_only_languages_with_every_size(tmp_path):
    store = invented_results.fill(
        tmp_path, groups=("slavic",), seeds=(0,), parts=("zero-shot", "few-shot"), sentences=5
    )
    frame = Frame(store)
    assert tables.few_shot_languages(frame, "slavic") == ["qpm", "orv", "cu"]  # hsb has 10 examples only
    table = tables.few_shot_table(frame, "slavic")
    assert columns(table) == ["0", "10", "30", "70", "100"]
    found = by_seed(store, "slavic", "CPG")[0]
    assert cells(table, "CPG")[0].value == pytest.approx(statistics.mean(found[c] for c in ("qpm", "orv", "cu")))


def test_the_last_of_equal_runs_counts(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    (old,) = store.runs(method="cpg")
    new, scored = replace(old, hash="f" * 64, status="planned"), store.scores(run=old.hash)
    store.plan([new])
    for score in scored:
        store.add_score(replace(score, run=new.hash, f1=12.3), store.predictions(old.hash, "CPG", score.language))
    assert Frame(store).entries("CPG", "germanic") == []  # not done yet
    store.update(new.hash, status=DONE, seconds=1.0, facts={})
    assert [entry.score.f1 for entry in Frame(store).entries("CPG", "germanic")] == [12.3] * 3


def test_encoders_are_kept_apart(tmp_path):
    for name in ("embedded", "some/folder/xlm-r"):
        store = invented_results.fill(
            tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4, encoder=name
        )
    frame = Frame(store)
    assert sorted(frame.encoders) == ["embedded", "xlm-r"]
    table = tables.encoders_table(frame, "pos")
    assert {*table.rows} >= {"ZGUL, embedded", "ZGUL, xlm-r", "ZGUL w/o F, xlm-r"}
    assert len(frame.entries("CPG", "germanic")) == 3
    assert [cell.paper for cell in cells(table, "ZGUL, xlm-r")] == [77.8, 21.7, 57.1, 52.2]


def test_the_papers_tied_em_stands_beside_ours_on_all_languages(tmp_path):
    store = invented_results.fill(tmp_path, seeds=(0,), parts=("zero-shot",), sentences=3)
    table = tables.em_tied_table(Frame(store))
    assert len(table.heads) == 16
    assert [cell.paper for cell in cells(table, "tied by layer")][-1] == 56.1
    assert [cell.paper for cell in cells(table, "token-wise")][-1] == 56.8
    found = [s.f1 for s in store.scores(row="ZGUL, EM tied by layer")]
    assert cells(table, "tied by layer")[-1].value == pytest.approx(statistics.mean(found))


def clear_cut(tmp_path, winner) -> Store:
    """ZGUL right everywhere and the others seldom, or the other way round."""
    skill = dict.fromkeys(invented_results.SKILL, 0.3) | {winner: 0.97}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invented_results, "SKILL", skill)
        return invented_results.fill(tmp_path, groups=("germanic",), seeds=(0, 1), parts=("zero-shot",), sentences=20)


def verdict(store):
    """The claim that ZGUL is first, and its row of the table of verdicts by column."""
    frame = open_results(store.folder)
    table = tables.verdict_table(frame)
    row = cells(table, "ZGUL is first, Germanic")
    return frame, dict(zip(columns(table), row, strict=True))


def test_claims_hold_where_the_difference_is_clear(tmp_path):
    store = clear_cut(tmp_path, "ZGUL")
    frame, row = verdict(store)
    assert (row["Verdict"].text, row["Verdict"].bold, row["p"].text) == ("holds", True, "< 0.0001")
    assert row["only ZGUL"].value > row["only other"].value
    own = by_seed(store, "germanic", "ZGUL")
    assert row["ZGUL"].value == pytest.approx(statistics.mean(statistics.mean(v.values()) for v in own.values()))
    assert row["Paper"].text == "+1.8* over CPG"
    assert tables.summary(frame)[0].endswith("in 1 of 1 groups. The claim holds in 1.")
    assert [claim.verdict for claim in tables.find_claims(frame).values()] == ["holds"] * 4
    assert cells(tables.zero_shot_table(frame, "pos"), "ZGUL")[-1].mark == "*"


def test_claims_do_not_hold_where_a_baseline_wins(tmp_path):
    frame, row = verdict(clear_cut(tmp_path, "SFT-M"))
    assert tables.find_claim(frame, "germanic").row == "SFT-M"
    assert (row["Verdict"].text, row["Verdict"].bold) == ("does not hold", False)
    assert row["Against"].text.startswith("SFT-M ") and row["Difference"].text.startswith("−")
    assert tables.summary(frame)[0].endswith("in 0 of 1 groups. The claim holds in 0.")
    assert cells(tables.zero_shot_table(frame, "pos"), "ZGUL")[-1].mark == ""


def test_a_lead_in_one_seed_only_is_not_beyond_chance(tmp_path):
    store = clear_cut(tmp_path, "ZGUL")
    (cpg,) = store.runs(method="cpg", seed=1)
    (zgul,) = store.runs(method="zgul", seed=1)
    for score in store.scores(run=zgul.hash, row="ZGUL"):
        tags = store.predictions(zgul.hash, "ZGUL", score.language)
        store.add_score(replace(score, run=cpg.hash, row="CPG", f1=score.f1 + 1), tags)
    _, row = verdict(store)
    assert row["Verdict"].text == "not beyond chance" and row["Difference"].text.startswith("+")


def without(store, **which):
    """Take the scores from runs, as if they had not been made."""
    for run in store.runs(part="zero-shot", **which):
        store.update(run.hash, status="planned")
    return store


def test_a_verdict_from_one_seed_says_so(tmp_path):
    frame, row = verdict(without(clear_cut(tmp_path, "ZGUL"), seed=1))
    assert (row["Verdict"].text, row["Verdict"].bold) == ("holds, one seed", True)
    assert row["By seed"].text == row["Difference"].text
    assert tables.summary(frame)[0].endswith("The claim holds in 1.")
    told = tables.coverage(frame)
    assert "these seeds: 0." in told and "No runs yet, and so no verdict: Slavic, African, Indo-Aryan." in told


def test_a_mean_over_fewer_seeds_than_beside_it_is_marked(tmp_path):
    store = without(clear_cut(tmp_path, "ZGUL"), seed=1, method="cpg")
    table = tables.zero_shot_table(open_results(store.folder), "pos")
    assert [cell.mark for cell in cells(table, "CPG")] == [" (1 of 2 seeds)"] * 4
    assert {cell.mark for row in ("SFT-M", "MADX-En") for cell in cells(table, row)} == {""}


def test_zgul_is_not_called_first_before_all_baselines_have_run(tmp_path):
    frame, row = verdict(without(clear_cut(tmp_path, "ZGUL"), method="cpg"))
    assert (row["Verdict"].text, row["Verdict"].bold) == ("open without CPG", False)
    assert tables.summary(frame)[0].endswith("in 0 of 0 groups. The claim holds in 0.")
    assert cells(tables.zero_shot_table(frame, "pos"), "ZGUL")[-1].mark == ""
    assert tables.find_claim(frame, "germanic", "EM helps").verdict == "holds"
    whole = open_results(clear_cut(tmp_path / "whole", "SFT-M").folder)
    then, now = cells(tables.earlier_tables({"then": whole, "now": frame})[0], "ZGUL is first, Germanic")
    assert "does not hold" in then.text and "open without CPG" in now.text and not then.bold and not now.bold


def test_a_group_with_runs_of_an_earlier_protocol_alone_is_shown(tmp_path):
    groups = {"then": ("germanic", "slavic"), "now": ("germanic",)}
    for name, chosen in groups.items():
        seeds = (0, 1) if name == "then" else (0,)
        invented_results.fill(tmp_path / name, groups=chosen, seeds=seeds, parts=("zero-shot",), sentences=3)
    verdicts, averages, settings = tables.earlier_tables({name: open_results(tmp_path / name) for name in groups})
    then, now = cells(verdicts, "EM helps, Slavic")
    assert then.text and not then.bold and now.text == "–"
    assert [group for group, _ in averages.spans] == ["Germanic", "Slavic"]
    assert [cell.text for cell in cells(settings, "seeds")] == ["0, 1", "0"]
    assert [cell.text for cell in cells(settings, "groups")] == ["Germanic, Slavic", "Germanic"]


def test_the_report_opens_with_the_picture_and_the_verdicts(tmp_path):
    Store(tmp_path, create=True)
    titles = list(sections(build_report(open_results(tmp_path))))
    assert titles[:3] == ["Ours and the paper's", "Do the paper's claims hold here?", "How the results were made"]


def test_parts_without_runs_say_what_fills_them(tmp_path):
    Store(tmp_path, create=True)
    report = build_report(open_results(tmp_path))
    for title, blocks in sections(report).items():
        if title not in ("How the results were made", "Departures from the paper", "Relatedness"):  # need no runs
            (told,) = blocks
            assert "`zgul " in told and "makes them" in told, title
    assert list(report) == ["index"] and side_by_side(open_results(tmp_path)) is None


def test_a_store_with_one_part_leaves_the_others_out(tmp_path):
    invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    report = build_report(open_results(tmp_path))
    assert sections(report)["Few-shot"] == [
        "No results yet: `zgul experiment paper --data DIR --output DIR --only few-shot` makes them."
    ]
    assert any(isinstance(block, tuple) for block in sections(report)["Do the paper's claims hold here?"])
    assert len(sections(report)["Zero-shot"]) == 1


def test_runs_of_unknown_parts_are_left_out(tmp_path):
    """Exports of earlier versions have a part "treated"."""
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    (run,) = store.runs(method="cpg")
    store.plan([replace(run, hash="f" * 64, name="treated", part="treated", status="planned")])
    store.update("f" * 64, status=DONE, seconds=1.0, facts={})
    frame = Frame(store)
    assert len(frame.runs) == 8 and {*tables.runs_table(frame).rows} == {"zero-shot"}


def test_class_table_is_the_mean_over_languages(invented, frame):
    table = tables.classes_table(frame, "ner")
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


def test_analyses_are_plain_json(frame):
    assert json.loads(json.dumps(frame.analyses)) == frame.analyses
