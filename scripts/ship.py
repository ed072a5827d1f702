"""Put trained taggers and adapters into the package.

    python scripts/ship.py RUN_DIR --adapters FILE

RUN_DIR is the output of embedded_taggers.py: results.jsonl, which holds each saved tagger's configuration, and the
weights beside it. EM that did not help on the source dev set it was chosen on is switched off for that target.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from zgul.tensors import write_json

SHIPPED = Path(__file__).resolve().parents[1] / "src" / "zgul" / "tagging" / "shipped"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--adapters", type=Path)
    parser.add_argument("--to", type=Path, default=SHIPPED)
    told = parser.parse_args()
    told.to.mkdir(parents=True, exist_ok=True)
    if told.adapters:
        shutil.copyfile(told.adapters, told.to / "adapters.safetensors")
    for line in (told.run / "results.jsonl").read_text().splitlines():
        result = json.loads(line)
        if "saved" in result:
            ship(result, told.run / f"{result['name']}.safetensors", told.to / result["name"])


def ship(result: dict, weights: Path, folder: Path) -> None:
    """One tagger's folder."""
    folder.mkdir(exist_ok=True)
    config = result["saved"]
    chosen = (result.get("em") or {}).get("targets", {})
    for target, setting in config["em"].items():
        if chosen[target]["f1"] <= chosen[target]["f1_without_em"]:
            setting["steps"] = 0
    if not config["em"]:
        config["strategy"] = "plain"
    config["about"]["scores"] = {"full": result["f1"], "8-bit": result["f1_8bit"]}
    write_json(folder / "config.json", config)
    shutil.copyfile(weights, folder / "model.safetensors")
    print(f"{folder.name}: {weights.stat().st_size / 1e6:.1f} MB, EM {config['em']}")


if __name__ == "__main__":
    main()
