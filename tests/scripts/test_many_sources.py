"""The rules that choose taggers over many sources, and the recipe of zgul adapt, on made-up results."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import adapt_results
import embedded_taggers
import many_sources

from zgul.files import read_json
from zgul.languages import TARGETS

ONE = {"is": 70.0, "cs": 80.0, "de": 75.0, "ru": 75.0, "sw": 60.0, "wo": 50.0}


def write_runs(folder: Path, **changes: float) -> None:
    """Results of each lever: those of "one" and what the lever changes."""
    lines = []
    for lever in many_sources.LEVERS:
        for spec in many_sources.lever_specs([lever], [0]):
            f1 = {}
            for code, split in spec["test"]:
                f1 |= {
                    f"{code}/{split}/plain": ONE[code] + changes.get(lever, 0.0) + 5,
                    f"{code}/{split}/noised/plain": 0,
                }
                f1[f"{code}/{split}/noised/plain"] = ONE[code] + changes.get(lever, 0.0) - 5
            lines.append(json.dumps({"name": spec["name"], "f1": f1}))
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_text("\n".join(lines))


@pytest.mark.parametrize(("group", "one"), [(0.2, True), (0.4, False), (-2.0, True)])
def test_one_tagger_is_enough_if_it_is_level_with_those_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: float, one: bool
) -> None:
    monkeypatch.setattr(many_sources, "RESULTS", tmp_path)
    write_runs(tmp_path / "run", group=group, features=0.5, **{"fusion-dropout": 0.1})
    many_sources.main(["choose", "--output", str(tmp_path / "run")])
    choice = read_json(tmp_path / "choice.json")
    assert choice["one"] is one
    assert choice["adopted"] == {"pos": ["features"], "ner": ["features"]}
    finals = {spec["name"]: spec["config"] for spec in many_sources.final_specs(choice)}
    assert ("germanic-pos" in finals) is not one and {"all-pos", "african-ner", "all-ner"} <= set(finals)
    assert finals["all-pos"]["options"] == {"encoder_rank": 16, "features": "all"}
    table = many_sources.lever_table(choice, "pos")
    assert f"| {many_sources.TITLES['group']} | 0 | {70 + group:.1f} |" in table and f"| {group:+.1f} |" in table


def test_a_lever_that_was_not_run_on_every_language_is_not_adopted(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(many_sources, "RESULTS", tmp_path)
    write_runs(tmp_path / "run", features=5.0)
    path = tmp_path / "run" / "results.jsonl"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if '"features.wo.0"' not in line))
    many_sources.main(["choose", "--output", str(tmp_path / "run")])
    assert read_json(tmp_path / "choice.json")["adopted"] == {"pos": ["features"], "ner": []}


def test_no_run_learns_from_a_target_or_from_what_it_leaves_out() -> None:
    places = embedded_taggers.Places(Path("data"), Path("out"), Path("adapters"), "embedded")
    specs = many_sources.lever_specs(many_sources.LEVERS, many_sources.SEEDS)
    assert len({spec["name"] for spec in specs}) == len(specs)
    for spec in [*specs, *many_sources.final_specs({"one": False, "adopted": {"pos": [], "ner": []}})]:
        config = embedded_taggers.resolve(spec["config"], places)
        assert config.kept_sources and not set(config.sources) & set(TARGETS)
        assert not {code for code, _ in spec.get("test", [])} - set(config.leave_out)


def test_of_level_recipes_the_cheapest_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt_results, "OUTPUT", tmp_path)
    f1 = {"short": 60.0, "long": 64.8, "masked": 65.0, "rounds": 65.05}
    for case in adapt_results.CASES:
        for recipe, value in f1.items():
            if (recipe, case.task) != ("long", "ner"):  # not done in time
                line = {"name": f"{case.name}, {recipe}", "task": case.task, "case": case.name, "recipe": recipe}
                adapt_results.append(tmp_path / "left-out.jsonl", line | {"dev_after": value})
    adapt_results.choose()
    assert read_json(tmp_path / "choice.json") == {"ner": "masked", "pos": "long"}
