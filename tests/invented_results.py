"""A store full of invented results for tests of the report: random tags on made-up words, no number means anything."""

import random
from pathlib import Path

from zgul.corpora.sentence import Sentence
from zgul.evaluation import scores
from zgul.experiments.plan import FEW_SHOT, TRAINED, main_rows, rows_of
from zgul.experiments.store import Score, Store, StoredRun
from zgul.languages import GROUPS, similarity

TAGS = {
    "pos": ("NOUN", "VERB", "ADJ", "ADP", "PUNCT", "PRON", "CCONJ", "X"),
    "ner": ("O", "O", "O", "O", "B-PER", "B-LOC", "B-ORG", "B-DATE"),
}
SKILL = {  # share of right words, so that the tables have an order
    "SFT-En": 0.50, "MADX-En": 0.52, "MADX-Rel": 0.51, "MADX-EMEA": 0.53, "MADX^multi-En": 0.55,
    "MADX^multi-Rel": 0.58, "MADX^multi-Uniform": 0.56, "MADX^multi-EMEA": 0.59, "SFT-M": 0.64, "CPG": 0.66,
    "ZGUL": 0.76, "ZGUL w/o EM": 0.74, "ZGUL w/o L": 0.70, "ZGUL w/o F": 0.76,
    "MADX^multi-Tgt": 0.66, "SFT++": 0.75, "ZGUL++": 0.80,
}  # fmt: skip


def fill(
    folder: Path,
    *,
    groups=tuple(GROUPS),
    seeds=(0, 1, 2),
    parts=("zero-shot", "treated", "few-shot", "unlabelled"),
    sentences=20,
    encoder="embedded",
) -> Store:
    """Invent results for these parts."""
    store = Store(folder, create=True)
    store.note(
        command="zgul experiment paper --data DIR --output DIR",
        commit="0000000 (invented)",
        machine="none",
        checksums={f"pos/xx{n}": "0" * 64 for n in range(9)},
    )
    for group in groups:
        for language in GROUPS[group].targets:
            store.add_gold(group, language, _gold(group, language, sentences))
        for seed in seeds:
            for part in ("zero-shot", "treated"):
                if part in parts:
                    for method in TRAINED:
                        rows = [row["row"] for row in (rows_of if part == "zero-shot" else main_rows)(method)]
                        _run(store, part, group, method, seed, rows, GROUPS[group].targets, {}, encoder)
            if "few-shot" in parts:
                for method in FEW_SHOT:
                    for language in GROUPS[group].targets:
                        for size in (0, 10, 30, 70, 100) if language != "hsb" else (0, 10):
                            extra = {"language": language, "examples": size, "draw": seed, "split": "few"}
                            rows = [row["row"] for row in main_rows(method)]
                            _run(store, "few-shot", group, method, seed, rows, [language], extra, encoder)
            if "unlabelled" in parts and seed == seeds[0]:
                for language in GROUPS[group].targets[:2]:
                    for share in (0.25, 0.5, 1.0):
                        for title in ("MADX^multi-Tgt", "SFT++", "ZGUL++", "ZGUL++ w/o target adapter"):
                            if share == 1.0 or "w/o" not in title:
                                extra = {"language": language, "share": share, "variant": title}
                                _run(store, "unlabelled", group, "zgul", seed, [title], [language], extra, encoder)
    return store


def _run(store, part, group, method, seed, rows, languages, extra, encoder):
    name = f"{part}-{group}-{method}-{seed}-{encoder}-" + "-".join(map(str, extra.values()))
    code = f"{random.Random(name).getrandbits(256):064x}"
    config = {"method": method, "group": group, "encoder": encoder, "seed": seed}
    store.plan([StoredRun(code, part, group, method, seed, name, config, extra)])
    store.start(code)
    for row in rows:
        for language in languages:
            gold = store.gold(group, language)
            tags = _guess(
                gold, f"{part}{row}{seed}{language}{extra}", _skill(part, row, extra), TAGS[GROUPS[group].task]
            )
            truth = [sentence.tags for sentence in gold]
            result = scores(truth, tags)
            correct = sum(a == b for s, t in zip(truth, tags, strict=True) for a, b in zip(s, t, strict=True))
            settings = {"steps": 5, "lr": 30.0} if row.startswith("ZGUL") and "w/o EM" not in row else None
            store.add_score(
                Score(
                    code, row, language, result.f1, result.accuracy, result.precision, result.recall,
                    {name: dict(values) for name, values in result.per_class.items()},
                    result.sentences, result.words, correct, 0.1, settings,
                ),
                tags,
            )  # fmt: skip
    store.finish(code, 60.0, _facts(part, group, method, seed))


def _skill(part, row, extra):
    base = SKILL.get(row, SKILL.get(row.split(" w/o")[0].split(",")[0], 0.6))
    more = 0.05 * (part == "treated") + 0.001 * extra.get("examples", 0) - 0.1 * (1 - extra.get("share", 1.0))
    return min(0.97, base + more)


def _facts(part, group, method, seed):
    facts = {"trainable": 1_234_567 * (1 + len(method)), "seconds_per_epoch": 20.0 + seed, "device": "none"}
    kinds = {"zgul": ("lang2vec", "fusion"), "madx-multi": ("emea",)}.get(method, ())
    if part == "zero-shot" and kinds:
        noise = random.Random(f"{group}{method}{seed}")
        facts["weights"] = {kind: {t: _weights(t, group, noise) for t in GROUPS[group].targets} for kind in kinds}
    return facts


def _weights(target, group, noise):
    raw = {source: similarity(target, source) + 0.3 * noise.random() for source in GROUPS[group].sources}
    return {source: value / sum(raw.values()) for source, value in raw.items()}


def _gold(group, language, count):
    draw = random.Random(language)
    tags = TAGS[GROUPS[group].task]
    return [
        Sentence(
            [f"{language}{draw.randrange(99)}" for _ in range(size)], [draw.choice(tags) for _ in range(size)], language
        )
        for size in (draw.randint(3, 14) for _ in range(count))
    ]


def _guess(gold, key, skill, tags):
    draw = random.Random(key)
    return [[tag if draw.random() < skill else draw.choice(tags) for tag in sentence.tags] for sentence in gold]
