"""Put trained taggers and language adapters into the package.

    python scripts/ship.py RUN --adapters FILE

RUN holds the files of embedded_taggers.py: results.jsonl and taggers/. If EM did not help on the source dev set that
chose its settings, it is switched off for that target. A file must not exceed 16 MB, and all files together 64 MB.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import zgul
from zgul.files import read_json, write_json

SHIPPED = Path(zgul.__file__).parent / "shipped"
MOST, MOST_IN_ALL = 16_000_000, 64_000_000  # bytes


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """The runs of a results file by name. Of several runs of one name, the last that succeeded counts."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return {run["name"]: run for run in map(json.loads, lines) if "error" not in run}


def shipped_bits(result: dict[str, Any]) -> int:
    """In how many bits a run saved the tagger that ships."""
    return int(result.get("save_bits", [8])[0])  # 8: runs before there was a choice


def ship_run(run: Path, to: Path, adapters: Path | None = None) -> None:
    """Copy the taggers of a run, and adapters, into the folder of the package."""
    to.mkdir(parents=True, exist_ok=True)
    if adapters:
        shutil.copyfile(adapters, to / "adapters.safetensors")
    for result in read_results(run / "results.jsonl").values():
        folder = run / "taggers" / result["name"]
        if folder.is_dir():
            ship_tagger(result, folder, to / result["name"])
    sizes = {path: path.stat().st_size for path in to.rglob("*.safetensors")}
    if too_large := [str(path) for path, size in sizes.items() if size > MOST]:
        sys.exit(f"over {MOST / 1e6:.0f} MB: {', '.join(too_large)}")
    print(f"{sum(sizes.values()) / 1e6:.1f} MB in all")
    if sum(sizes.values()) > MOST_IN_ALL:
        sys.exit(f"over {MOST_IN_ALL / 1e6:.0f} MB in all")


def ship_tagger(result: dict[str, Any], trained: Path, folder: Path) -> None:
    """Copy one tagger, with its scores and without EM that did not help."""
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = read_json(trained / "config.json")
    chosen = (config["about"].get("em") or {}).get("targets", {})
    for target, setting in config["em"].items():
        if target in chosen and chosen[target]["f1"] <= chosen[target]["f1_without_em"]:
            setting["steps"] = 0
    if not config["em"]:
        config["strategy"] = "plain"
    bits = shipped_bits(result)
    config["about"]["scores"] = {"full": result["f1"], f"{bits}-bit": result[f"f1_{bits}bit"]}
    write_json(folder / "config.json", config)
    shutil.copyfile(trained / "model.safetensors", folder / "model.safetensors")
    print(f"{folder.name}: {(folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB, EM {config['em']}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--adapters", type=Path, help="language adapters to ship with them")
    parser.add_argument("--to", type=Path, default=SHIPPED)
    given = parser.parse_args(arguments)
    ship_run(given.run, given.to, given.adapters)


if __name__ == "__main__":
    main()
