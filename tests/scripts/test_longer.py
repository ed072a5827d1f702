"""The rule that replaces a tagger by one that was trained for longer, on made-up results."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import embedded_taggers
import longer

from zgul.files import read_json, write_json
from zgul.languages import TARGETS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(longer, "RESULTS", tmp_path)
    return tmp_path


def write_runs(folder: Path, **changes: float) -> None:
    """Runs on the languages left out: as good as the taggers of before, and what a lever changes."""
    lines = []
    for lever in longer.LEVERS:
        for task in longer.LEFT_OUT:
            f1 = {}
            for key, value in longer.before(task).items():
                language, *form = key.split("/")
                f1["/".join([language, "dev", *form, "plain"])] = value + changes.get(lever, 0.0)
            lines.append(json.dumps({"name": f"{lever}.{task}", "f1": f1}))
    (folder / "results.jsonl").write_text("\n".join(lines))


def judged(name: str, plain: float, strange: float) -> dict[str, dict[str, float]]:
    codes = read_json(longer.SHIPPED / name / "config.json")["sources"]
    gains = {"as it is": plain, "noised": strange, "shifted": strange}
    return {
        f"{name}/{code}/{form}": {"old": 60.0, "new": 60.0 + gain} for code in codes for form, gain in gains.items()
    }


def test_a_lever_is_adopted_if_it_is_clearly_better(folder: Path) -> None:
    write_runs(folder, rank64=0.4, average=0.2, sft=3.0)
    longer.main(["choose", "--output", str(folder)])
    assert read_json(folder / "choice.json")["adopted"] == {"pos": ["rank64"], "ner": ["rank64"]}
    finals = {spec["name"]: spec for spec in longer.final_specs({"pos": ["rank64"], "ner": []})}
    assert finals["all-pos"]["config"]["options"] == {"encoder_rank": 64}
    assert finals["african-ner"]["config"]["options"] == {"encoder_rank": 16}
    assert finals["sft-all-pos"]["config"]["sources"] == finals["all-pos"]["config"]["sources"]


@pytest.mark.parametrize(
    ("name", "left_out", "plain", "strange", "replaced"),
    [
        ("african-ner", 0.5, -0.9, -5.0, True),
        ("african-ner", 0.2, 3.0, 3.0, False),
        ("african-ner", 5.0, -1.1, 3.0, False),
        ("all-ner", -5.0, -0.9, -0.2, True),
        ("all-ner", 5.0, 3.0, -0.4, False),
        ("all-pos", 0.2, 3.0, 3.0, False),
    ],
)
def test_a_tagger_is_replaced_by_the_rule(
    folder: Path, name: str, left_out: float, plain: float, strange: float, replaced: bool
) -> None:
    write_runs(folder, one=left_out)
    longer.main(["choose", "--output", str(folder)])
    write_json(folder / "judged.json", {"f1": judged(name, plain, strange)})
    assert longer.replaced(name)["replaced"] is replaced
    if not replaced:
        with pytest.raises(SystemExit, match=f"do not ship: {name}"):
            longer.main(["ship", name, "--output", str(folder)])


def test_no_run_learns_from_a_target_or_from_what_it_leaves_out() -> None:
    places = embedded_taggers.Places(Path("data"), Path("out"), Path("adapters"), "embedded")
    specs: list[dict[str, Any]] = [*longer.lever_specs(), *longer.final_specs({"pos": ["average"], "ner": []})]
    assert len({spec["name"] for spec in specs}) == len(specs)
    for spec in specs:
        config = embedded_taggers.resolve(spec["config"], places)
        assert config.kept_sources and not set(config.sources) & set(TARGETS)
        tested = {code for code, _ in spec.get("test", [])}
        assert tested <= {*config.leave_out, *TARGETS}
