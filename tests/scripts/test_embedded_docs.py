"""The tables of the docs are what the recorded results say, and `make scores` prints what users get."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from standin import stand_in_taggers, words
from zgul.corpora import columns
from zgul.errors import ZgulError
from zgul.languages import GROUPS, SOURCES, TARGETS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import cards
import scores


@pytest.fixture(scope="module")
def recorded() -> cards.Recorded:
    return cards.Recorded(cards.RESULTS)


@pytest.mark.parametrize(("page", "blocks"), [("adapters.md", 5), ("taggers.md", 4), ("adapt.md", 4)])
def test_pages_are_as_the_script_writes_them(page: str, blocks: int, recorded: cards.Recorded) -> None:
    shipped = cards.read_cards(cards.SHIPPED, recorded)
    text = (scores.DOCS / page).read_text(encoding="utf-8")
    assert text.count("<!-- cards: ") == blocks
    made = cards.doc_blocks(shipped, recorded) | cards.adapting_blocks(cards.ADAPTING)
    assert cards.fill(text, made) == text


def test_cards_are_as_the_script_writes_them(recorded: cards.Recorded) -> None:
    shipped = cards.read_cards(cards.SHIPPED, recorded)
    assert len(shipped) == 6
    for card in shipped:
        assert (cards.SHIPPED / card.name / "README.md").read_text() == cards.tagger_card(card, recorded)
    card = cards.adapters_card(recorded, cards.SHIPPED, shipped)
    assert (cards.SHIPPED / "README.md").read_text() == card


@pytest.mark.parametrize("variant", ["shared", "mixed"])
def test_the_own_adapter_wins_for_every_source(variant: str, recorded: cards.Recorded) -> None:
    table = recorded.adapters["results"][variant]
    for source in SOURCES:
        others = [pair for name, pair in table[source].items() if name != source]
        accuracy, perplexity = table[source][source]
        assert accuracy > max(pair[0] for pair in others)
        assert perplexity < min(pair[1] for pair in others)


def test_faroese_reads_best_under_icelandic_and_assamese_under_bengali(recorded: cards.Recorded) -> None:
    table = recorded.adapters["results"]["mixed"]
    for target, source in (("fo", "is"), ("as", "bn"), ("gsw", "de"), ("hsb", "cs"), ("orv", "ru"), ("rw", "sw")):
        assert max(SOURCES, key=lambda code, target=target: table[target][code][0]) == source


def test_no_place_of_a_machine_is_recorded() -> None:
    for path in cards.RESULTS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "/root" not in text
        assert "/home" not in text


def test_averages_are_those_of_the_paper() -> None:
    for group in GROUPS.values():
        own = sum(map(scores.paper_f1, group.targets)) / len(group.targets)
        assert own == pytest.approx(scores.printed_average(group.name, "ZGUL"), abs=0.06)


def test_scores_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZgulError, match=r"no such folder.*make scores DATA=DIR"):
        scores.check(tmp_path / "nowhere", ["fo"])
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    with pytest.raises(ZgulError, match="germanic-pos is not installed"):
        scores.check(tmp_path, ["fo"])
    (tmp_path / "germanic-pos").mkdir()
    (tmp_path / "germanic-pos" / "config.json").write_text("{}")
    with pytest.raises(ZgulError, match="has no test file"):
        scores.check(tmp_path, ["fo"])


def test_the_table_of_scores_averages_whole_groups() -> None:
    def result(f1: float, steps: int = 0) -> dict[str, object]:
        return {"f1": f1, "model": "a-tagger", "em": {"steps": steps}, "sentences": 10}

    rows = scores.summary({"as": result(70.0, 10), "bho": result(67.0), "fo": result(80.0)})
    assert [row[0] for row in rows] == ["Faroese (fo)", "Assamese (as)", "Bhojpuri (bho)", "**indo-aryan**"]
    assert rows[1][2] == "10"
    assert rows[2][2] == "–"
    assert rows[3][4:] == ["68.5", "68.5", "69.3", "68: reached"]
    zero_shot = {"as": result(70.0), "bho": result(67.0)}
    assert "adapted" not in scores.scores_table(zero_shot)
    both = scores.scores_table(zero_shot | {"bho": result(67.0) | {"adapted_f1": 69.0}})
    assert "| Assamese (as) | a-tagger | – | 10 | 70.0 | – | 74.4 |  |" in both
    assert "| 67.0 | 69.0 | 64.1 |  |" in both
    assert "| 68.5 | 69.5 | 69.3 | 68: reached |" in both  # what `zgul tag` gives, on average


def test_scores_are_recorded_for_all_test_files() -> None:
    assert set(json.loads((cards.RESULTS / "scores.json").read_text())["scores"]) == set(TARGETS)


def test_scores_are_printed_beside_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(stand_in_taggers(tmp_path, ("germanic-pos",))))
    for language in ("got", "gsw"):
        path = tmp_path / "pos" / language / "test.tsv"
        path.parent.mkdir(parents=True)
        columns.write(path, words().sentences("target", 5))
    scores.main(["--data", str(tmp_path), "--languages", "got", "gsw", "--output", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "[ 2/2] Swiss German (gsw)" in printed
    assert ", adapted     –   the paper's ZGUL  64.8" in printed
    assert "| Gothic (got) | germanic-pos | 1 | 5 |" in printed  # of its own two: scored as users get it
    assert not (tmp_path / "out").exists()  # only all 15 files are worth recording


def test_scores_are_zero_shot_with_the_adapted_tagger_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of docs/taggers.md says so."""
    results = {
        False: SimpleNamespace(to_dict=lambda: {"f1": 60.0}),
        True: SimpleNamespace(to_dict=lambda: {"f1": 61.0}),
    }
    monkeypatch.setattr(scores, "load", lambda *_, adapted, precision: adapted)
    monkeypatch.setattr(scores.evaluation_run, "evaluate", lambda tagger, _: results[tagger])
    folder = SimpleNamespace(sentences=lambda *_: [])
    assert scores.evaluate("fo", folder) == {"f1": 60.0, "adapted_f1": 61.0}  # type: ignore[arg-type]
    assert scores.evaluate("got", folder) == {"f1": 60.0, "adapted_f1": None}  # type: ignore[arg-type]
