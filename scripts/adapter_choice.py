"""Choose the form of the language adapters on sources left out, on a GPU machine. The rule is in plans/README.md.

    python scripts/adapter_choice.py --data DIR --output RUN [--encoder embedded] [--jobs 6]

Every form is trained on open text until held-out masked accuracy stops rising (embedded_adapters.py). ZGUL is then
trained without one source, with the adapters of the other sources as its bank, and scored on the dev set of the source
left out (embedded_taggers.py). No labels of a target are read. The best form is trained on research text, too. What is
done is not repeated. RUN/choice.json has the figures, RUN/FORM/adapters.json those of the masked LM, with the targets.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from embedded_adapters import Settings, make_adapters
from embedded_taggers import Places, run_specs
from ship import SHIPPED, read_results

from zgul import encoders
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import save_adapters
from zgul.files import write_json
from zgul.languages import GROUPS, SOURCES

WIDTH = 384  # of the embedded encoder
OPEN = Settings(variants=("shared", "mixed"), kinds=("open",), rounds=6)
FORMS = {
    f"bottleneck-{factor}{'-invertible' * invertible}": replace(OPEN, size=WIDTH // factor, invertible=invertible)
    for factor in (2, 4)
    for invertible in (False, True)
}
RESEARCH = "-research"  # ends the name of the best form, trained on research text, too
TAGGER = {"method": "zgul", "lr": 1e-3, "limit": 2000, "batch_size": 32, "precision": "bfloat16"}
LEVEL = 0.3  # F1: forms within this distance count as equal, and the smaller one is taken


def banks(output: Path, forms: Mapping[str, Settings]) -> dict[str, tuple[str, str]]:
    """The banks to be judged, the smallest first: file of the adapters, and what ZGUL does with invertible blocks."""
    named = {
        "none": (str(output / "none.safetensors"), "off"),
        "shipped": (str(SHIPPED / "adapters.safetensors"), "off"),
    }
    for form, settings in sorted(forms.items(), key=lambda item: (item[1].size, item[1].invertible)):
        for variant in settings.variants:
            path = output / form / f"adapters-{variant}.safetensors"
            named[f"{form}/{variant}"] = (str(path), "mixed" if settings.invertible else "off")
    return named


def specs(named: Mapping[str, tuple[str, str]], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A run for each bank and source but English: trained without the source, scored on its dev set."""
    return [
        {
            "name": f"{name}:{group.name}:{source}",
            "config": {
                **TAGGER,
                "group": group.name,
                "leave_out": [source],
                "options": {"invertible": block},
                **changes,
            },
            "adapters": path,
            "test": [[source, "dev"]],
            "strategies": ["plain"],
        }
        for name, (path, block) in named.items()
        for group in GROUPS.values()
        for source in group.sources
        if source != "en"
    ]


def figures(output: Path, planned: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """F1 by bank and source left out."""
    results, found = read_results(output / "results.jsonl"), dict[str, dict[str, float]]()
    for name in (spec["name"] for spec in planned):
        bank, _, source = name.split(":")
        found.setdefault(bank, {})[source] = results[name]["f1"][f"{source}/dev/plain"]
    return found


def best_form(found: Mapping[str, Mapping[str, float]], candidates: list[str]) -> str:
    """The first of the banks, which begin with the smallest, that is level with the highest mean."""
    means = {name: mean(found[name].values()) for name in candidates}
    return next(name for name in candidates if means[name] >= max(means.values()) - LEVEL)


def choose(
    data: Path,
    output: Path,
    encoder: str,
    jobs: int = 6,
    forms: Mapping[str, Settings] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train and judge all forms, then the best one with research text. ``changes`` are of the taggers."""
    output.mkdir(parents=True, exist_ok=True)
    body, _ = encoders.load(encoder)
    new = LanguageAdapter.new("en", body.width, body.depth, size=8)  # it changes nothing yet
    save_adapters(output / "none.safetensors", [replace(new, language=source) for source in SOURCES])
    forms, told = dict(forms or FORMS), {}
    for stage in ("open", "research"):
        for form, settings in forms.items():
            if not all((output / form / f"adapters-{variant}.safetensors").is_file() for variant in settings.variants):
                make_adapters(data, output / form, encoder, settings, workers=12 if jobs else 0)
        named = banks(output, forms)
        if body.width != WIDTH:
            named.pop("shipped")
        planned = specs(named, changes or {})
        run_specs(planned, Places(data, output, output, encoder), jobs)
        found = figures(output, planned)
        best = best_form(found, [name for name in named if "/" in name and RESEARCH not in name])
        told = {"f1": found, "mean": {name: round(mean(own.values()), 2) for name, own in found.items()}, "best": best}
        write_json(output / "choice.json", told)
        if stage == "open":
            form, variant = best.split("/")
            kinds = (*forms[form].kinds, "research")
            forms[form + RESEARCH] = replace(forms[form], variants=(variant,), kinds=kinds)
    return told


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of text/, pos/ and ner/")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--jobs", type=int, default=6, help="taggers that train side by side (0: in this process)")
    told = choose(**vars(parser.parse_args(arguments)))
    for name, f1 in told["mean"].items():
        print(f"{f1:6.2f}  {name}{'  <- best on open text' if name == told['best'] else ''}")


if __name__ == "__main__":
    main()
