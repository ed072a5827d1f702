"""Ship adapted taggers: deltas that ``zgul adapt`` made become folders of ``src/zgul/shipped``.

    python scripts/ship_adapted.py DELTA... --data DIR [--bits 2] [--options "--task ner"]

The rules are in scripts/plans/README.md, under "adapted taggers". Each delta is coded in few bits. Sentences of open
text show how many tags that changes. Then each test file is read once: by the tagger before, by the adapted one, and by
the adapted one in the precision that `auto` chooses, which must not lose more than int8 may. Results join those in
docs/results/adapt/shipped.json. readings.jsonl gets a line for each reading, and the weights get a card beside them.
"""

import argparse
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from adapt_results import OUTPUT, append, predicted, provenance
from int8_scores import LIMIT

from zgul.corpora import DataFolder
from zgul.corpora.lines import Lines
from zgul.evaluation import bootstrap_f1, scores
from zgul.files import atomic_write, read_json, shipped_folder, write_json
from zgul.languages import find
from zgul.tagging.delta import TENSORS, Delta, load_delta, save_delta
from zgul.tagging.loading import load

LINES = 300  # of open text, on which the coded delta is compared with the delta that was made
CARD = """# {name}

{base}, adapted to raw text of {language}. No labelled sentence of {language} was used.
`zgul tag --lang {code}` uses it; `--no-adapted` leaves it out, which is zero-shot. It is a delta to
[{base}](../{base}/README.md): what that card says about use, weaknesses and licences holds here, too.

## Scores
F1 on the paper's test file, read once for this, after everything was made: {before:.1f} before,
**{after:.1f}** adapted (difference {f1:+.1f}, 95% interval {low:+.1f} to {high:+.1f}). One seed.

## How it was made
- `zgul adapt --lang {code} --text open-text {options}`: {minutes:.1f} minutes on {machine}
- text: {kept:,} sentences ({words:,} words) of openly licensed {language}, drawn from {read:,} lines. Lines that share
  six words in a row with a labelled sentence had been left out. No text is shipped
- on {held_out} held-out sentences, before and after: masked pieces guessed {masked_before:.0f} and {masked_after:.0f}%,
  tags that stay the same under spelling noise {steady_before:.0f} and {steady_after:.0f}%
- {changed:.0f}% of the tags of the held-out sentences changed
- in the precision that `auto` chose for {base} (int8 where the CPU is fast in it) F1 is {auto:.1f}{refused}
- coded in {bits} bits a number, {megabytes:.2f} MB; that changes {coded:.1f}% of the tags of open text
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deltas", type=Path, nargs="+", metavar="DELTA")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--bits", type=int, default=2)
    parser.add_argument("--options", default="", help="further options of zgul adapt that made them, for the cards")
    parser.add_argument("--machine", default="one shared core", help="where they were made, for the cards")
    given = parser.parse_args()
    made = {folder: load_delta(folder) for folder in given.deltas}
    coded = {delta.language: code(folder, delta, given) for folder, delta in made.items()}
    path = OUTPUT / "shipped.json"
    results = read_json(path)["targets"] if path.is_file() else {}
    for delta in made.values():  # all of them are final before the first test file is read
        results[delta.language] = facts = score(delta, given) | coded[delta.language]
        place = shipped_folder() / name_of(delta)
        write_card(place / "README.md", delta, facts, given)
        about = dict(delta.about) | {"test_f1": facts["after"], "int8": facts["after"] - facts["auto"] <= LIMIT}
        save_delta(place, replace(delta, about=about), bits=given.bits)
        write_json(path, {"targets": results, **provenance()})


def name_of(delta: Delta) -> str:
    return f"{delta.language}-{delta.task}"


def code(folder: Path, delta: Delta, given: argparse.Namespace) -> dict[str, float]:
    """Save a delta among the shipped taggers, and count the tags of open text that change by its few bits."""
    place = shipped_folder() / name_of(delta)
    place.mkdir(exist_ok=True)
    save_delta(place, delta, bits=given.bits)
    lines = [line for file in DataFolder(given.data).text_files(delta.language, ("open",)) for line in Lines(file)]
    sample = random.Random(0).sample(lines, min(LINES, len(lines)))
    exact, rough = (tags(delta, str(one), sample) for one in (folder, place))
    share = 100 * sum(one != other for one, other in zip(exact, rough, strict=True)) / len(exact)
    print(f"{name_of(delta)}: {given.bits} bits change {share:.2f}% of {len(exact):,} tags", flush=True)
    return {"bits": given.bits, "coded": share, "megabytes": (place / TENSORS).stat().st_size / 1e6}


def tags(delta: Delta, model: str, lines: list[str]) -> list[str]:
    tagger = load(delta.language, delta.task, model=model, precision="float32")
    return [tag for document in tagger.tag_all(lines) for tag in document.tags]


def score(delta: Delta, given: argparse.Namespace) -> dict[str, Any]:
    """Read the test file once, and score the tagger before and after."""
    test = DataFolder(given.data).sentences(delta.task, delta.language, "test")
    append(OUTPUT / "readings.jsonl", {"file": f"{delta.task}/{delta.language}/test", **provenance()})
    before, after, rough = (
        load(delta.language, delta.task, adapted=adapted, precision=precision)
        for adapted, precision in ((False, "float32"), (True, "float32"), (True, "auto"))
    )
    assert after.served[delta.task].name == name_of(delta)
    gold = [sentence.tags or [] for sentence in test]
    old, new, coarse = (predicted(tagger, test) for tagger in (before, after, rough))
    f1 = {name: scores(gold, tags).f1 for name, tags in (("before", old), ("after", new), ("auto", coarse))}
    return f1 | {"sentences": len(test), "difference": asdict(bootstrap_f1(gold, new, old))}


def write_card(path: Path, delta: Delta, facts: dict[str, Any], given: argparse.Namespace) -> None:
    about = delta.about
    (step,) = (step["figures"] for step in about["steps"])
    values = {
        "name": name_of(delta),
        "base": delta.base,
        "language": find(delta.language).name,
        "code": delta.language,
        "options": given.options,
        "machine": given.machine,
        "minutes": about["seconds"] / 60,
        "masked_before": step["masked accuracy before"],
        "masked_after": step["masked accuracy after"],
        "steady_before": step["steady before"],
        "steady_after": step["steady after"],
        "changed": about["changed"],
        "refused": "" if facts["after"] - facts["auto"] <= LIMIT else ": too low, so `auto` is float32 here",
    }
    text = {name: about["text"][name] for name in ("kept", "words", "read", "held_out")}
    with atomic_write(path) as file:
        file.write(CARD.format(**values | text | facts | facts["difference"]))


if __name__ == "__main__":
    main()
