"""The recipe of everything that ships, in small: a made-up family plays the eleven sources and the fifteen targets."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from family import Family, family, tiny_encoder
from zgul import encoders
from zgul.adapters.storage import shipped_adapters
from zgul.corpora import columns
from zgul.corpora.sentence import Sentence
from zgul.files import read_json
from zgul.languages import GROUPS, SOURCES, TARGETS
from zgul.tagging.loading import load
from zgul.tagging.serving import shipped_names

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import cards
import embedded_adapters
import embedded_taggers
import recipe
import ship
import strange_dev

MADE: Family = family(0, n_languages=4)
ENTITIES = {"NOUN": "B-PER", "ADJ": "B-LOC", "ADV": "B-ORG"}
TAGGERS = {"all-ner", "all-pos", *(f"{group.name}-{group.task}" for group in GROUPS.values())}


def as_entities(sentence: Sentence, language: str) -> Sentence:
    """Word classes as entities; dates only where MasakhaNER has them."""
    kinds = ENTITIES | ({"PRON": "B-DATE"} if language in ("am", "sw", "wo") else {})
    return replace(sentence, tags=[kinds.get(tag, "O") for tag in sentence.tags or []])


def write_data(folder: Path) -> None:
    for number, language in enumerate((*SOURCES, *TARGETS)):
        actor = MADE.sources[number % 3] if language in SOURCES else MADE.target
        made = MADE.sentences(actor, 24, number)
        text = folder / "text" / f"{language}.open.txt"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("".join(line + "\n" for line in MADE.text(actor, 120, number)))
        splits = ("train", "dev", "panx.train", "panx.dev") if language in SOURCES else ("test",)
        for task in ("pos", "ner"):
            sentences = made if task == "pos" else [as_entities(sentence, language) for sentence in made]
            for split in splits:
                path = folder / task / language / f"{split}.tsv"
                path.parent.mkdir(parents=True, exist_ok=True)
                columns.write(path, sentences if "train" in split else sentences[:6])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    write_data(folder / "data")
    encoders.save(*tiny_encoder(MADE, width=16), folder / "encoder")
    recipe.main(arguments(folder))
    return folder


def arguments(folder: Path) -> list[str]:
    places = {"--data": "data", "--output": "run", "--to": "shipped", "--encoder": "encoder"}
    return [*(text for option, name in places.items() for text in (option, str(folder / name))), "--dry"]


def test_the_recipe_makes_everything_that_ships(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(run / "shipped"))
    assert set(shipped_names()) == TAGGERS
    assert [adapter.language for adapter in shipped_adapters(SOURCES)] == list(SOURCES)
    for language, task in (("fo", "pos"), ("luo", "ner"), ("as", "pos")):
        words = MADE.sentences(MADE.target, 1)[0].words
        assert len(load(language, task).tag(words)[0].layers[task].tags) == len(words)


def test_every_run_of_the_plan_is_recorded(run: Path) -> None:
    recorded = ship.read_results(run / "run" / "results.jsonl")
    planned = {spec["name"] for spec in json.loads(recipe.PLAN.read_text())}
    assert set(recorded) == planned
    for name in TAGGERS:
        assert set(recorded[name]["f1"]) == set(recorded[name]["f1_9bit"]) != set()


def test_a_tagger_is_saved_and_scored_in_every_form_asked_for(run: Path, tmp_path: Path) -> None:
    config = {"group": "germanic", "epochs": 1, "batch_size": 8, "limit": 8, "precision": "float32"}
    spec = {"name": "small", "config": config, "adapters": "adapters-mixed.safetensors", "save": True}
    spec |= {"test": [["fo", "test"]], "save_bits": [9, 16, 32]}
    (tmp_path / "plan.json").write_text(json.dumps([spec]))
    places = {"--data": run / "data", "--output": tmp_path, "--encoder": run / "encoder", "--adapters": run / "run"}
    options = [str(text) for place in places.items() for text in place]
    embedded_taggers.main([str(tmp_path / "plan.json"), *options, "--jobs", "0"])
    result = ship.read_results(tmp_path / "results.jsonl")["small"]
    assert ship.shipped_bits(result) == 9
    assert result["f1"] == result["f1_32bit"] and set(result["f1"]) == set(result["f1_9bit"]) == set(result["f1_16bit"])
    for bits, folder in ((9, "taggers"), (16, "taggers-16bit"), (32, "taggers-32bit")):
        assert result["bytes"][str(bits)] == (tmp_path / folder / "small" / "model.safetensors").stat().st_size


def test_taggers_are_compared_on_dev_sets_made_strange(run: Path, tmp_path: Path, capsys) -> None:
    folders = [str(run / "run" / "taggers" / name) for name in ("germanic-pos", "all-pos")]
    places = {"--data": run / "data", "--encoder": run / "encoder", "--output": tmp_path / "choice.json"}
    places["--adapters"] = run / "run" / "adapters-mixed.safetensors"
    strange_dev.main(["germanic", *folders, *(str(text) for place in places.items() for text in place)])
    found = json.loads((tmp_path / "choice.json").read_text())["f1"]
    means = {name: strange_dev.whole(forms) for name, forms in found.items()}
    best = max(means, key=means.__getitem__)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "| tagger | as it is | noised | shifted | mean |"
    assert printed[2].startswith(f"| `{best}` |") and printed[2].endswith(f"| {means[best]:.2f} |")


def test_the_plan_compares_every_group_with_sft_under_the_same_treatment() -> None:
    plan = {spec["name"]: spec["config"] for spec in json.loads(recipe.PLAN.read_text())}
    for group in GROUPS.values():
        sft = plan[f"sft:{group.name}"]
        zgul = plan[f"{group.name}-{group.task}"]
        assert (sft["method"], sft["group"]) == ("sft-m", group.name)
        for option in ("noise", "label_set_per_corpus", "unannotated", "select"):
            assert sft.get(option) == zgul.get(option)


@pytest.mark.parametrize("path", sorted(recipe.PLAN.parent.glob("*.json")), ids=lambda path: path.stem)
def test_every_plan_can_be_run(path: Path) -> None:
    places = embedded_taggers.Places(Path("data"), Path("out"), Path("adapters"), "embedded")
    for spec in json.loads(path.read_text()):
        config = embedded_taggers.resolve(spec["config"], places)
        assert config.kept_sources and config.data == "data" and config.encoder == "embedded"


def test_every_tagger_gets_a_card(run: Path) -> None:
    for name in TAGGERS:
        card = (run / "shipped" / name / "README.md").read_text()
        for heading in ("Intended use", "Scores", "Known weaknesses", "How it was made", "Data and licences"):
            assert f"\n## {heading}\n" in card
        assert "scripts/recipe.py" in card
        assert "non-commercial" in card
    assert "Masked accuracy" in (run / "shipped" / "README.md").read_text()


def test_a_step_that_is_done_is_not_repeated(run: Path) -> None:
    before = (run / "run" / "results.jsonl").read_text()
    made = (run / "run" / "adapters-mixed.safetensors").stat().st_mtime_ns
    recipe.main(arguments(run))
    assert (run / "run" / "results.jsonl").read_text() == before
    assert (run / "run" / "adapters-mixed.safetensors").stat().st_mtime_ns == made


def test_a_run_that_failed_does_not_ship(run: Path, tmp_path: Path) -> None:
    (tmp_path / "adapters-mixed.safetensors").touch()
    recorded = (run / "run" / "results.jsonl").read_text().splitlines()
    failed = {"name": "all-ner", "error": "RuntimeError: out of memory"}
    kept = [line for line in recorded if json.loads(line)["name"] != "all-ner"]
    (tmp_path / "results.jsonl").write_text("\n".join([*kept, json.dumps(failed)]) + "\n")
    places = ["--data", str(run / "data"), "--output", str(tmp_path), "--to", str(tmp_path / "shipped")]
    with pytest.raises(SystemExit, match=r"all-ner: not done\. See the errors in"):
        recipe.main([*places, "--encoder", str(run / "encoder"), "--dry"])
    assert not (tmp_path / "shipped").exists()


def test_text_is_sampled_evenly_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "is.open.txt").write_text("".join(f"o {n}\n" for n in range(100)))
    (tmp_path / "text" / "is.research.txt").write_text("".join(f"r {n}\n" for n in range(10)))
    lines = embedded_adapters.sampled(tmp_path, "is", 50)
    assert [line for line in lines if line[0] == "r"] == [f"r {n}" for n in range(10)]
    assert [line for line in lines if line[0] == "o"] == [f"o {n}" for n in range(3, 100, 4)]


def test_em_that_did_not_help_is_switched_off(tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    trained.mkdir()
    chosen = {"fo": {"f1": 90.0, "f1_without_em": 90.0}, "gsw": {"f1": 91.0, "f1_without_em": 90.0}}
    setting = {"steps": 5, "lr": 1.0}
    config = {"em": {"fo": setting, "gsw": setting}, "strategy": "em", "about": {"em": {"targets": chosen}}}
    (trained / "config.json").write_text(json.dumps(config))
    (trained / "model.safetensors").write_bytes(b"weights")
    ship.ship_tagger({"f1": {}, "f1_9bit": {}, "save_bits": [9, 16]}, trained, tmp_path / "shipped")
    shipped_config = read_json(tmp_path / "shipped" / "config.json")
    assert {target: em["steps"] for target, em in shipped_config["em"].items()} == {"fo": 0, "gsw": 5}  # type: ignore[attr-defined]


def test_what_is_too_large_does_not_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results.jsonl").write_text("")
    (tmp_path / "adapters").write_bytes(b"0" * 100)
    monkeypatch.setattr(ship, "MOST", 99)
    with pytest.raises(SystemExit, match=r"adapters\.safetensors"):
        ship.main([str(tmp_path), "--adapters", str(tmp_path / "adapters"), "--to", str(tmp_path / "to")])


def test_only_the_blocks_of_a_page_are_written_again() -> None:
    page = "a 1\n<!-- cards: x -->\nold\n<!-- end -->\nb\n<!-- cards: y -->\n<!-- end -->\n"
    filled = cards.fill(page, {"x": "new\n", "y": "more\n"})
    assert filled == "a 1\n<!-- cards: x -->\nnew\n<!-- end -->\nb\n<!-- cards: y -->\nmore\n<!-- end -->\n"


@pytest.mark.slow
def test_the_encoder_keeps_the_pieces_of_the_data(tmp_path: Path) -> None:
    write_data(tmp_path)
    path = recipe.prune(tmp_path, tmp_path)
    encoder, tokenizer = encoders.load(path)
    _, whole = encoders.load("embedded")
    vocabulary = tokenizer.backend.get_vocab_size()
    assert vocabulary < whole.backend.get_vocab_size()
    assert len(encoder.words.weight) == vocabulary
    for word in MADE.sentences("target", 3)[0].words:
        ours, theirs = (own.backend.encode(word).tokens for own in (tokenizer, whole))
        assert ours == theirs
