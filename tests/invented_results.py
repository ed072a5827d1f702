"""A store full of invented results for tests of the report: random tags on made-up words, no number means anything."""

import random
from pathlib import Path

from zgul.corpora.sentence import Sentence
from zgul.evaluation import scores
from zgul.languages import GROUPS, similarity
from zgul.paper.rows import FEW_SHOT, TRAINED, rows_of
from zgul.paper.store import DONE, RUNNING, Score, Store, StoredRun

PARTS = ("zero-shot", "few-shot", "unlabelled", "tuning", "variants")
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
RATES = {"sft-m": ((5e-5, None), (1e-4, None)), "zgul": ((5e-4, 3.0), (1e-3, 3.0), (5e-4, 4.0), (1e-3, 4.0))}


def fill(
    folder: Path, *, groups=tuple(GROUPS), seeds=(0, 1, 2), parts=PARTS, sentences=20, encoder="embedded"
) -> Store:
    """Invent results for these parts."""
    store = Store(folder, create=True)
    store.note(
        commands=["zgul experiment paper --data DIR --output DIR"],
        commit="0000000 (invented)",
        machine="none",
        encoder=encoder,
        checksums={f"pos/xx{n}": "0" * 64 for n in range(9)},
    )
    for group in groups:
        targets = GROUPS[group].targets
        for language in targets:
            store.add_gold(group, language, _gold(group, language, sentences))
        for seed in seeds:
            for part, method, rows, languages, extra in _runs(targets, seed, seed == seeds[0]):
                if part in parts:
                    _run(store, part, group, method, seed, rows, languages, extra, encoder)
    return store


def _runs(targets, seed, first):
    """Part, method, rows, languages and extra of every run of a group and seed."""
    for method in TRAINED:
        yield "zero-shot", method, _titles(method, "zero-shot", "em"), targets, {}
    yield "variants", "zgul", ["ZGUL"], targets, {"variant": "random start"}
    for method in FEW_SHOT:
        for language in targets:
            for size in (0, 10, 30, 70, 100) if language != "hsb" else (0, 10):
                extra = {"language": language, "examples": size, "draw": seed, "split": "few"}
                yield "few-shot", method, _titles(method, "zero-shot"), [language], extra
    if first:
        for method, settings in RATES.items():
            for rate, reduction in settings:
                extra = {"rate": rate} | ({"reduction": reduction} if reduction else {})
                yield "tuning", method, [], [], extra
        for language in targets[:2]:
            for share in (0.25, 0.5, 1.0):
                for title in ("MADX^multi-Tgt", "SFT++", "ZGUL++", "ZGUL++ w/o target adapter"):
                    if share == 1.0 or "w/o" not in title:
                        extra = {"language": language, "share": share, "variant": title}
                        yield "unlabelled", "zgul", [title], [language], extra


def _titles(method, *tables):
    return [row.title for row in rows_of(method, *tables)]


def _run(store, part, group, method, seed, rows, languages, extra, encoder):
    name = f"{part}-{group}-{method}-{seed}-{encoder}-" + "-".join(map(str, extra.values()))
    code = f"{random.Random(name).getrandbits(256):064x}"
    config = {"method": method, "group": group, "encoder": encoder, "seed": seed}
    store.plan([StoredRun(code, part, group, method, seed, name, config, extra)])
    store.update(code, status=RUNNING)
    for row in rows:
        for language in languages:
            gold = store.gold(group, language)
            tags = _guess(gold, f"{part}{row}{seed}{language}{extra}", _skill(row, extra), TAGS[GROUPS[group].task])
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
    store.update(code, status=DONE, seconds=60.0, facts=_facts(part, group, method, seed, extra))


def _skill(row, extra):
    base = SKILL.get(row, SKILL.get(row.split(" w/o")[0].split(",")[0], 0.6))
    return min(0.97, base + 0.001 * extra.get("examples", 0) - 0.1 * (1 - extra.get("share", 1.0)))


def _facts(part, group, method, seed, extra):
    facts = {"trainable": 1_234_567 * (1 + len(method)), "seconds_per_epoch": 20.0 + seed, "device": "none"}
    kinds = {"zgul": ("lang2vec", "fusion"), "madx-multi": ("emea",)}.get(method, ())
    noise = random.Random(f"{part}{group}{method}{seed}")
    targets = GROUPS[group].targets
    if part in ("zero-shot", "variants") and kinds:
        facts["weights"] = {kind: {t: _weights(t, group, noise) for t in targets} for kind in kinds}
        facts["weights_untrained"] = {kind: {t: _weights(t, group, noise) for t in targets} for kind in kinds}
    if part == "zero-shot" and method == "zgul":
        dev = {"on": "a dev set", "lr": 30.0, "f1_without_em": 60.0}
        facts["em"] = {"ZGUL": {t: dev | {"steps": 5 * (n % 2), "f1": 60.0 + n % 2} for n, t in enumerate(targets)}}
    if part == "tuning":
        best = 80.0 + 1e4 * extra["rate"] * (1 if extra.get("reduction", 3.0) == 3.0 else -1)
        facts["dev_f1"] = [70.0, best, best - 1.0]
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
