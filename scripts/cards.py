"""Write the cards of what ships, and the tables of docs/adapters.md and docs/taggers.md, from recorded results.

    python scripts/cards.py [--results docs/results/embedded] [--shipped src/zgul/tagging/shipped] [--docs docs]

Figures come from RESULTS (adapters.json, results.jsonl, loso.jsonl, provenance.json) and from the taggers' own
config.json; none is written by hand. In the docs only what stands between ``<!-- cards: NAME -->`` and ``<!-- end -->``
is replaced.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import strange_dev
from scores import GOALS, GROUP_OF, PAPER, PAPER_AVERAGES, RESULTS, ROOT, markdown
from ship import SHIPPED, results, shipped_bits

from zgul.files import atomic_write
from zgul.languages import GROUPS, SOURCES, TARGETS, find, most_related
from zgul.tensors import read_json

LOSS = 0.1  # F1 that fewer bits may cost on a target
DATA = {  # labelled sets the taggers learnt from, with their licences
    "pos/en": "UD EWT (CC BY-SA 4.0); GUM, LinES, ParTUT (CC BY-NC-SA 4.0)",
    "pos/de": "UD GSD (CC BY-SA 4.0), part of it with converted tags; PUD (CC BY-SA 3.0); LIT (CC BY-NC-SA 4.0)",
    "pos/is": "UD IcePaHC, Modern, PUD, GC (CC BY-SA 4.0)",
    "pos/ru": "UD Taiga, GSD, PUD, Poetry (CC BY-SA)",
    "pos/cs": "UD CAC, CLTT, PUD, Poetry (CC BY-SA 4.0), FicTree, PDTC (CC BY-NC-SA 4.0); a part with converted tags",
    "ner/en": "Broad Twitter Corpus, WNUT-17 (CC BY 4.0); UNER EWT (CC BY-SA 4.0); no dates annotated",
    "ner/en/panx": "WikiAnn (derived from Wikipedia)",
    "ner/am": "MasakhaNER 1.0 (CC BY-NC 4.0)",
    "ner/sw": "MasakhaNER 1.0 (CC BY-NC 4.0)",
    "ner/wo": "MasakhaNER 1.0 (CC BY-NC 4.0)",
    "ner/hi": "IL-NER (CC BY 4.0); HiNER, collapsed (CC BY-SA 4.0)",
    "ner/bn": "WikiAnn (derived from Wikipedia)",
    "ner/ur": "IL-NER (CC BY 4.0)",
}
WEAKNESSES = {
    "pos": [
        "It never gives the tag X: in the training data X marks the absence of an annotation, so X is left out of the "
        "loss and of the prediction, and words whose gold tag is X count as mistakes.",
    ],
    "ner": [
        "Entities are persons, places and organisations, and dates where MasakhaNER was trained on; nothing else.",
        "The corpora follow different schemes (news, Wikipedia's links, tweets), so the bounds of an entity and what "
        "counts as an organisation differ by language.",
    ],
    "germanic-pos": ["Most Gothic words are tagged wrongly: it is far from anything the encoder has read."],
    "slavic-pos": ["Old Church Slavonic has letters that the encoder lacks, and is read much worse than the others."],
    "indo-aryan-ner": [
        "The two test files have about 100 sentences each: one entity is about a point of F1, so that neither rounding "
        "nor EM can be judged there to a tenth.",
    ],
    "african-ner": [
        "Beside our SFT-M it is not like with like: it has seen fewer than half of the English sentences, which are "
        "most of the group's.",
    ],
}
LEADS = {
    "all": "Used for a language outside every group, and for the task that a language's own group lacks",
    "group": "Used for every language that relatedness puts in the {group} group",
}


@dataclass(frozen=True)
class Card:
    """A shipped tagger: its folder and what is recorded about it."""

    name: str
    config: dict[str, Any]
    size: int  # bytes
    run: dict[str, Any]  # its line in results.jsonl: F1 in full precision ("f1") and as it ships
    evaluated: dict[str, float]  # F1 by `make scores`

    @property
    def task(self) -> str:
        return str(self.config["task"])

    @property
    def bits(self) -> int:
        return shipped_bits(self.run)

    @property
    def made(self) -> dict[str, float]:
        """F1 of the shipped form when it was made."""
        found: dict[str, float] = self.run.get(f"f1_{self.bits}bit", {})
        return found

    @property
    def targets(self) -> list[str]:
        """The languages that it was measured on, in the paper's order."""
        return [target for target in TARGETS if self.f1(target) is not None]

    def steps(self, target: str) -> int:
        """Steps of EM that it takes on a language."""
        em = self.config["em"]
        return int((em.get(target) or em.get("") or {"steps": 0})["steps"])

    def f1(self, target: str) -> float | None:
        """As it is shipped: by `make scores`, else as measured when it was made."""
        kind = "em" if self.steps(target) else "plain"
        return self.evaluated.get(target, self.made.get(f"{target}/test/{kind}"))

    def precisions(self, target: str) -> tuple[float, float] | None:
        """F1 in full precision and as it ships when it was made, with EM if it is on and both were measured so."""
        for kind in ("em", "plain") if self.steps(target) else ("plain",):
            key = f"{target}/test/{kind}"
            if key in self.run.get("f1", {}) and key in self.made:
                return float(self.run["f1"][key]), float(self.made[key])
        return None

    def loss(self, target: str) -> float | None:
        """What fewer bits cost; None where that was not measured."""
        pair = self.precisions(target)
        return None if pair is None else pair[0] - pair[1]


def read_cards(folder: Path, recorded: Recorded) -> list[Card]:
    found = []
    for path in sorted(folder.glob("*/config.json")):
        name = path.parent.name
        size = (path.parent / "model.safetensors").stat().st_size
        evaluated = {code: result["f1"] for code, result in recorded.evaluated.items() if result["model"] == name}
        found.append(Card(name, read_json(path), size, recorded.runs.get(name, {}), evaluated))
    return found


class Recorded:
    """What the runs left: results by name, adapters' figures, provenance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = results(folder / "results.jsonl")
        self.adapters: dict[str, Any] = read_json(folder / "adapters.json")
        provenance, evaluated = folder / "provenance.json", folder / "scores.json"
        self.provenance: dict[str, Any] = read_json(provenance) if provenance.is_file() else {}
        self.evaluated: dict[str, Any] = read_json(evaluated)["scores"] if evaluated.is_file() else {}  # type: ignore[assignment]

    def sft(self, target: str) -> float | None:
        """Our SFT-M under the same noise and label treatment."""
        run = self.runs.get(f"sft:{GROUP_OF[target].name}", {})
        value = run.get("f1", {}).get(f"{target}/test/plain")
        return None if value is None else float(value)

    def origin(self, name: str) -> dict[str, Any]:
        own: dict[str, Any] = self.provenance.get(name) or self.provenance.get("taggers") or {}
        return own


def figure(value: float | None, form: str = ".1f") -> str:
    return "–" if value is None else format(value, form)


def average(values: Iterable[float | None]) -> float | None:
    kept = list(values)
    return None if None in kept or not kept else mean(value for value in kept if value is not None)


# --- cards of taggers


def score_rows(card: Card, recorded: Recorded) -> list[list[str]]:
    """A line for each target, and the average of each group that was measured as a whole."""
    rows = []
    for group in GROUPS.values():
        targets = [target for target in group.targets if target in card.targets]
        for target in targets:
            steps = str(card.steps(target) or "–")
            figures = [figure(value) for value in (card.f1(target), PAPER[target], recorded.sft(target))]
            rows.append([str(find(target)), *figures, steps, *precision_figures(card, target)])
        if len(targets) == len(group.targets):
            shipped_average = average(card.f1(target) for target in targets)
            sft = average(recorded.sft(target) for target in targets)
            figures = [figure(shipped_average), figure(PAPER_AVERAGES[group.name]), figure(sft)]
            rows.append([f"**{group.name}**", *figures, "", "", "", ""])
    return rows


def precision_figures(card: Card, target: str) -> list[str]:
    """F1 in full precision, as it ships, and the difference."""
    pair = card.precisions(target)
    if pair is None:
        return [figure(None)] * 3
    full, packed = pair
    return [figure(full, ".2f"), figure(packed, ".2f"), figure(packed - full, "+.2f")]


SCORE_HEADS = ["", "F1", "the paper's ZGUL", "our SFT-M", "EM steps", "full precision"]


def weaknesses(card: Card, recorded: Recorded) -> list[str]:
    """What is known to be weak: what the figures say, then what they do not."""
    said = []
    losses = {target: loss for target in card.targets if (loss := card.loss(target)) is not None}
    if over := [f"{find(target)} ({loss:.2f})" for target, loss in losses.items() if loss > LOSS]:
        said.append(f"{card.bits} bits cost more than {LOSS} F1 on {', '.join(over)}.")
    if unknown := [str(find(target)) for target in card.targets if target not in losses]:
        said.append(f"What {card.bits} bits cost was not measured on {', '.join(unknown)}.")
    for what, other in (("the paper's ZGUL", PAPER.get), ("our SFT-M", recorded.sft)):
        below = [
            f"{find(target)} ({own:.1f}, {value:.1f})"
            for target in card.targets
            if (value := other(target)) is not None and (own := card.f1(target)) is not None and own < value
        ]
        if below:
            said.append(f"Below {what} on {', '.join(below)}.")
    said += WEAKNESSES.get(card.name, []) + WEAKNESSES[card.task]
    return [*said, "One seed; differences under about one point of F1 are noise."]


def data_rows(card: Card) -> list[list[str]]:
    rows = []
    for source in card.config["sources"]:
        key = f"{card.task}/{source}"
        if source == "en" and card.config["about"]["training"]["group"] == "indo-aryan":
            key += "/panx"
        rows.append([str(find(source)), DATA[key]])
    return rows


def tagger_card(card: Card, recorded: Recorded) -> str:
    training = card.config["about"]["training"]
    origin = recorded.origin(card.name)
    group = training["group"]
    task = {"pos": "Parts of speech (UPOS)", "ner": "Named entities (BIO)"}[card.task]
    sources = ", ".join(find(source).name for source in card.config["sources"])
    lead = LEADS["group"].format(group=group) if group else LEADS["all"]
    noise = training["noise"]
    limit = f"at most {training['limit']:,}" if training["limit"] else "all"
    facts = [
        f"ZGUL on the embedded encoder (12 layers, width 384, frozen) with differences of rank "
        f"{training['options']['encoder_rank']} to its matrices, over the language adapters of {sources}",
        f"{training['epochs']} epochs, batches of {training['batch_size']}, learning rate {training['lr']:g} "
        f"({training['language_lr']:g} of it for lang2vec), {limit} sentences of a language, "
        f"character noise in {noise['words']:.0%} of the words of {noise['sentences']:.0%} of the sentences",
        f"the weights with the best F1 on the sources' dev sets; seed {training['seed']}; no target data in training",
        f"folded, {card.bits} bits, {card.size / 1e6:.1f} MB",
    ]
    if card.config.get("decode") == "sequence":
        facts.append("its tags are the most probable sequence that IOB2 allows")
    if card.config.get("kin_letters"):
        facts.append("letters that the encoder does not know are read as their kin by the Unicode standard")
    if card.config["about"].get("em"):
        facts.append(
            f"EM settings by {card.config['about']['em']['by']}; EM that did not raise F1 there is switched off"
        )
    if origin:
        facts.append(f"made {origin['date']} at commit {origin['commit']}, on {origin['machine']}")
        facts.append(f"`{origin['command']}`; everything that ships: `make recipe DATA=DIR OUT=RUN`")
    return f"""# {card.name}

{task}, learnt from {sources}. {lead}.

## Intended use
Tagging text for research, for corpora to be corrected by hand, and for language communities, in languages that have no
labelled data. Not for decisions about people. Some of what it was trained on is licensed for non-commercial use only,
or is not openly licensed at all (below): use it for non-commercial purposes.

## Scores
F1 (seqeval) on the paper's test files, as shipped ({card.bits} bits, EM where it is on), by `make scores` for the
languages that it serves. "Our SFT-M" was trained on the sources of the group with the same noise and label treatment,
in full precision. The last columns, measured when it was made, are what {card.bits} bits change.

{markdown([*SCORE_HEADS, f"{card.bits} bits", "change"], score_rows(card, recorded))}
## Known weaknesses
{bullets(weaknesses(card, recorded))}
## How it was made
{bullets(facts)}
## Data and licences
{markdown(["labelled", "from"], data_rows(card), words=2)}
The language adapters it reads with were trained on text of both kinds, openly licensed and not: see
[../README.md](../README.md). No text ships.
"""


def bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


# --- language adapters


def related(target: str) -> tuple[str, list[str]]:
    """The most related source, and those outside the target's group."""
    return most_related(target, SOURCES), [code for code in SOURCES if code not in GROUP_OF[target].sources]


def source_rows(table: dict[str, Any], sources: list[str]) -> list[list[str]]:
    """Each source's held-out text: its own adapter, the best of the others, none, the shared start, the mixture."""
    rows = []
    for source in sources:
        row = table[source]
        other = max((code for code in sources if code != source), key=lambda code: row[code][0])
        accuracies = {"own": row[source], "none": row["none"], "shared": row["shared"], "uniform": row["uniform"]}
        rows.append(
            [
                str(find(source)),
                measured(accuracies["own"]),
                f"{measured(row[other])} {other}",
                *(measured(accuracies[name]) for name in ("none", "shared", "uniform")),
                "own" if row[source][0] > max(row[key][0] for key in row if key != source) else "**not own**",
            ]
        )
    return rows


SOURCE_HEADS = ["held-out text", "own adapter", "best of the others", "none", "shared start", "even mixture", "best"]


def target_rows(table: dict[str, Any]) -> list[list[str]]:
    """Each target's text: the related source's adapter against those of sources outside its group."""
    rows = []
    for target in (code for code in TARGETS if code in table):
        row = table[target]
        own, outside = related(target)
        best = max(outside, key=lambda code: row[code][0])
        verdict = "related" if row[own][0] > row[best][0] else f"**{best}**"
        unrelated = f"{mean(row[code][0] for code in outside):.1f}"
        figures = [f"{measured(row[own])} {own}", f"{measured(row[best])} {best}", unrelated, measured(row["none"])]
        rows.append([str(find(target)), *figures, measured(row["uniform"]), verdict])
    return rows


TARGET_HEADS = ["text", "related", "best unrelated", "mean of the unrelated", "none", "even mixture", "best"]


def measured(pair: list[float]) -> str:
    return f"{pair[0]:.1f} ({pair[1]:,.0f})"


def verdicts(recorded: Recorded) -> str:
    """What the tables say, in words."""
    sources = recorded.adapters["sources"]
    tables: dict[str, Any] = recorded.adapters["results"]
    said = []
    for variant, table in tables.items():
        own = [s for s in sources if table[s][s][0] > max(v[0] for key, v in table[s].items() if key != s)]
        foreign = [table[s][code][0] for s in sources for code in sources if code != s]
        mixture = [table[s]["uniform"][0] for s in sources]
        above = sum(table[s]["uniform"][0] > table[s]["shared"][0] for s in sources)
        said.append(
            f"`{variant}`, sources: the own adapter is best for {len(own)} of {len(sources)}. A foreign one reads the "
            f"text with {min(foreign):.1f} to {max(foreign):.1f} % (mean {mean(foreign):.1f}), the even mixture of all "
            f"with {min(mixture):.1f} to {max(mixture):.1f} % (mean {mean(mixture):.1f}), which beats the shared "
            f"start for {above}."
        )
        said.append(f"`{variant}`, targets: {target_verdict(table)}")
    if {"shared", "mixed"} <= set(tables):
        lost = [tables["shared"][s][s][0] - tables["mixed"][s][s][0] for s in sources]
        said.append(f"What `mixed` costs an adapter on its own language: {min(lost):.1f} to {max(lost):.1f} points.")
    return bullets(said)


def target_verdict(table: dict[str, Any]) -> str:
    """On which targets the related adapter wins, and on which not."""
    targets = [target for target in TARGETS if target in table]

    def lost(target: str, rank: Callable[[str], float], rivals: list[str]) -> bool:
        return rank(related(target)[0]) <= max(rank(code) for code in rivals)

    by_accuracy = [t for t in targets if lost(t, lambda code, t=t: table[t][code][0], related(t)[1])]
    by_perplexity = [t for t in targets if lost(t, lambda code, t=t: -table[t][code][1], related(t)[1])]
    inside = []
    for target in targets:
        best = max(GROUP_OF[target].sources, key=lambda code: table[target][code][0])
        if best != related(target)[0]:
            inside.append(f"{find(target).name} under {best}")
    said = []
    for what, missing in (("accuracy", by_accuracy), ("perplexity", by_perplexity)):
        named = f" (not on {', '.join(find(t).name for t in missing)})" if missing else ""
        said.append(f"by {what} on {len(targets) - len(missing)} of {len(targets)}{named}")
    text = f"the related adapter beats every unrelated one {', '.join(said)}."
    return text + (f" Inside the group another source is better for {', '.join(inside)}." if inside else "")


def adapters_card(recorded: Recorded, folder: Path, cards: list[Card]) -> str:
    origin = {"note": ""} | recorded.provenance["adapters"]
    settings = recorded.adapters["arguments"]
    table = recorded.adapters["results"]["mixed"]
    sources = recorded.adapters["sources"]
    size = (folder / "adapters.safetensors").stat().st_size
    total = size + sum(card.size for card in cards)
    made = "Made {date} at commit {commit}, on {machine}, seed {seed}:\n`{command}`. {note}".format_map(origin)
    taggers = [[f"[{card.name}]({card.name}/README.md)", f"{card.size / 1e6:.1f} MB"] for card in cards]
    return f"""# The language adapters, and the taggers beside them

`adapters.safetensors` ({size / 1e6:.1f} MB, 8 bits) holds the language adapters of {len(sources)} sources, for the
embedded encoder: MAD-X bottlenecks of {settings["size"]}, no invertible block. All that ships: {total / 1e6:.1f} MB.

{markdown(["tagger", "weights"], taggers)}
## Intended use
As the bank of ZGUL and of what it is compared with, for research. They were trained in part on text that is not openly
licensed (below) and ship for non-commercial use.

## How they were made
One masked-LM head for all sources ({settings["head_steps"]} steps), then one adapter shared by all
({settings["shared_steps"]} steps), then {len(sources)} copies of it, each trained on its own language
({settings["steps"]} steps of {settings["blocks"]} blocks of 128 pieces), half of the blocks read in mixture with
another language's adapter.

{made}
Everything that ships: `make recipe DATA=DIR OUT=RUN`.

## Scores
Masked accuracy in percent, perplexity in brackets, on held-out lines of the sources.

{markdown(SOURCE_HEADS, source_rows(table, sources))}
Targets, and what was tried besides: docs/adapters.md.

## Data and licences
Text of two kinds, at most {settings["words"]:,} words of each file.

- Open: Tatoeba (CC BY 2.0 FR), ELTeC (public domain, CC BY 4.0), Common Voice (CC0), NTREX (CC BY-SA 4.0), eBible
  (public domain or CC BY-SA), MDN (CC BY-SA 2.5), Mozilla's localisations (MPL 2.0), Pratham Books and African
  Storybook (CC BY, some CC BY-NC), IcePaHC and UD (CC BY-SA), MIM-GOLD (its own open licence), Greynir (CC BY 4.0),
  DraCor (CC0, CC BY), Corpus of Czech Verse (CC BY-SA), Brown (as in NLTK), LAFAND (CC BY-NC).
- Research, not openly licensed (news, blogs, religious texts in public repositories): part of Amharic, Swahili, Wolof,
  Hindi, Bengali, Urdu. Used for training only; none of it is quoted or ships.

## Known weaknesses
- Masked accuracy is low in absolute terms: the encoder is small, was not made for masked LM, and stays frozen.
- On some targets another adapter reads as well as the related one; docs/adapters.md names them.
- The text is novels, sentences read aloud, scripture and news: not speech, not social media.
"""


# --- docs


def group_rows(cards: list[Card], recorded: Recorded) -> list[list[str]]:
    """Group averages of the taggers made for the groups, and of those over all sources."""
    rows = []
    by_name = {card.name: card for card in cards}
    for group in GROUPS.values():
        values: list[float | None] = []
        for name in (f"{group.name}-{group.task}", f"all-{group.task}"):
            card = by_name.get(name)
            values.append(average(card.f1(target) for target in group.targets) if card else None)
        sft = average(recorded.sft(target) for target in group.targets)
        rows.append(
            [group.name, *(figure(value) for value in [*values, sft, PAPER_AVERAGES[group.name], GOALS[group.name]])]
        )
    return rows


GROUP_HEADS = ["group", "its tagger", "the one over all sources", "our SFT-M", "the paper's ZGUL", "goal"]


def precision_rows(cards: list[Card]) -> list[list[str]]:
    """What fewer bits change, for every tagger and target."""
    rows = []
    for card in cards:
        for target in card.targets:
            verdict = f"**over {LOSS}**" if (card.loss(target) or 0.0) > LOSS else ""
            rows.append([card.name, str(find(target)), *precision_figures(card, target), verdict])
    return rows


def search_rows(recorded: Recorded) -> list[list[str]]:
    """Leave-one-source-out: F1 on the source left out, as it is, with noise, with shifted letters."""
    rows = []
    path = recorded.folder / "loso.jsonl"
    if not path.is_file():
        return rows
    for name, run in sorted(results(path).items()):
        variant, _, left_out = name.partition(":")
        group, _, language = left_out.rpartition("-")
        for split in dict.fromkeys(key.split("/")[1] for key in run["f1"]):
            f1 = [run["f1"].get(f"{language}/{split}/{kind}plain") for kind in ("", "noised/", "shifted/")]
            rows.append([group, str(find(language)), f"`{variant}`", split, *(figure(value) for value in f1)])
    return sorted(rows, key=lambda row: row[:4])


AFRICAN_RUNS = {  # trainings of the African tagger, and the leave-one-out runs under the same settings
    "african-ner": "z-s-r16-e12",
    "african-ner-seed1": "z-s-r16-e12",
    "african-ner-6-epochs": "z-s-r16-again",
    "african-ner-light": "",
    "african-ner-none": "",
}


def african_rows(recorded: Recorded) -> list[list[str]]:
    """Trainings of the African tagger: the sources' dev sets, sources left out, the targets."""
    path = recorded.folder / "loso.jsonl"
    left_out = results(path) if path.is_file() else {}
    rows = []
    for name, variant in AFRICAN_RUNS.items():
        if run := recorded.runs.get(name):
            config = run["config"]
            noise = config["noise"]
            said = f"{noise['words']:.0%} of the words of {noise['sentences']:.0%}" if noise["sentences"] else "none"
            sources = [
                left_out.get(f"{variant}:african-{source}", {}).get("f1", {}).get(f"{source}/train/plain")
                for source in ("sw", "wo")
            ]
            f1 = run.get(f"f1_{shipped_bits(run)}bit", {})
            targets = [
                average(f1.get(f"{target}/test/{kind}") for target in GROUPS["african"].targets)
                for kind in ("plain", "em")
            ]
            told = [f"`{name}`", said, config.get("decode", "words"), str(config["epochs"]), str(config["seed"])]
            rows.append([*told, *(figure(value, ".2f") for value in (max(run["dev_f1"]), *sources, *targets))])
    return rows


AFRICAN_HEADS = ["run", "noise", "decoding of the targets", "epochs", "seed", "sources' dev", "Swahili left out"]
AFRICAN_HEADS += ["Wolof left out", "targets, no EM", "targets, EM"]


NOISES = ("s", "light")
NOISE_RUNS = {  # a source that was left out: group, name of the runs, scored on
    "sw": ("african", "z-{}-r16-e12", "train"),
    "wo": ("african", "z-{}-r16-e12", "train"),
    "bn": ("indo-aryan", "z-{}-r16-small", "dev"),
    "ur": ("indo-aryan", "z-{}-r16-small", "dev"),
    "hi": ("indo-aryan", "z-{}-r16-small", "dev"),
}


def noise_rows(recorded: Recorded) -> list[list[str]]:
    """F1 on a source left out, with the noise that ships and with less; the mean decides."""
    path = recorded.folder / "loso.jsonl"
    left_out = results(path) if path.is_file() else {}
    found: dict[str, list[float | None]] = {}
    for source, (group, name, split) in NOISE_RUNS.items():
        runs = (left_out.get(f"{name.format(noise)}:{group}-{source}", {}) for noise in NOISES)
        found[str(find(source))] = [run.get("f1", {}).get(f"{source}/{split}/plain") for run in runs]
    found["**mean**"] = [average(column) for column in zip(*found.values(), strict=True)]
    return [[name, *(figure(value, ".2f") for value in values)] for name, values in found.items()]


def blocks(cards: list[Card], recorded: Recorded) -> dict[str, Callable[[], str]]:
    """What the docs may ask for."""
    tables = recorded.adapters["results"]
    sources = recorded.adapters["sources"]
    made: dict[str, Callable[[], str]] = {
        "verdicts": lambda: verdicts(recorded),
        "groups": lambda: markdown(GROUP_HEADS, group_rows(cards, recorded)),
        "precision": lambda: markdown(
            ["tagger", "language", "full", "shipped", "difference", ""], precision_rows(cards), words=2
        ),
        "search": lambda: markdown(
            ["group", "left out", "run", "scored on", "as it is", "noised", "shifted"], search_rows(recorded), words=4
        ),
        "choice": lambda: strange_dev.table(read_json(recorded.folder / "choice.json")["f1"]),
        "african": lambda: markdown(AFRICAN_HEADS, african_rows(recorded), words=3),
        "noise": lambda: markdown(["left out", *(f"`{noise}`" for noise in NOISES)], noise_rows(recorded)),
        "provenance": lambda: bullets(
            f"{name}: {entry['date']}, commit {entry['commit']}, {entry['machine']}, seed {entry['seed']}; "
            f"`{entry['command']}`" + (f". {entry['note']}" if "note" in entry else "")
            for name, entry in recorded.provenance.items()
        ),
    }
    for variant in tables:
        made[f"sources {variant}"] = lambda table=tables[variant]: markdown(SOURCE_HEADS, source_rows(table, sources))
        made[f"targets {variant}"] = lambda table=tables[variant]: markdown(TARGET_HEADS, target_rows(table))
    return made


def fill(text: str, made: dict[str, Callable[[], str]]) -> str:
    """The text with its blocks written again."""
    return re.sub(
        r"(<!-- cards: ([^>]+?) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{made[found[2]]()}{found[3]}",
        text,
        flags=re.DOTALL,
    )


def keep(run: Path, folder: Path = RESULTS) -> None:
    """Take the results of a recipe's run over into the docs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("adapters.json", "results.jsonl", "provenance.json"):
        shutil.copyfile(run / name, folder / name)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shipped", type=Path, default=SHIPPED)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    told = parser.parse_args(arguments)
    recorded = Recorded(told.results)
    cards = read_cards(told.shipped, recorded)
    texts = {told.shipped / card.name / "README.md": tagger_card(card, recorded) for card in cards}
    texts[told.shipped / "README.md"] = adapters_card(recorded, told.shipped, cards)
    made = blocks(cards, recorded)
    for path in (told.docs / "adapters.md", told.docs / "taggers.md"):
        if path.is_file():
            texts[path] = fill(path.read_text(encoding="utf-8"), made)
    for path, text in texts.items():
        with atomic_write(path) as file:
            file.write(text)
    print(f"{len(texts)} files written")


if __name__ == "__main__":
    main()
