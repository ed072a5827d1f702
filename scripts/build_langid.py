"""Build src/zgul/tagging/langid.npz, the table with which ``zgul tag --lang auto`` guesses a language, and measure it.

    python scripts/build_langid.py ../shared/data

The table is built from the unlabelled text and the train and few splits. A tenth of their lines is kept apart to
calibrate the probabilities. The test files are only used to measure the result. The table holds statistics, no text.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter
from pathlib import Path

import numpy as np

from zgul.corpora import columns, plain_text
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import TASKS
from zgul.files import atomic_write
from zgul.languages import SOURCES, TARGETS
from zgul.tagging.langid import STEP, TABLE, Floats, Guess, NgramTable, ngrams, softmax, words

LANGUAGES = [*SOURCES, *TARGETS]
WORDS = 300_000  # read of each language
SMOOTHING = 0.5  # counts added to every n-gram
LEAST = 10  # an n-gram must occur this often in a language to be considered
BY_LANGUAGE = 1100  # n-grams chosen for each language


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, default=TABLE)
    arguments = parser.parse_args()
    rng = random.Random(0)
    training: dict[str, list[str]] = {}
    held_out: dict[str, list[str]] = {}
    for language in LANGUAGES:
        lines = learnable(arguments.data, language)
        rng.shuffle(lines)
        border = len(lines) // 10
        held_out[language], training[language] = lines[:border], lines[border:]
        print(f"{language}: {len(lines)} lines", flush=True)
    model = calibrate(count(training), held_out, rng)
    save(model, arguments.output)
    print(f"{len(model.rows)} n-grams, {arguments.output.stat().st_size} bytes; scale {model.scale}, {model.damping}")
    measure(model, arguments.data)


def learnable(data: Path, language: str) -> list[str]:
    """Lines of text and of labelled training sentences."""
    folder = DataFolder(data)
    lines: list[str] = []
    for path in folder.text_files(language):
        lines += [" ".join(sentence.words) for sentence in plain_text.read(path, form="words")]
    for task, split in itertools.product(TASKS, ("train", "few")):
        if path := folder.labelled_file(task, language, split):
            lines += [" ".join(sentence.words) for sentence in columns.read(path, task=None)]
    return lines


def save(model: NgramTable, path: Path) -> None:
    """Write the table."""
    with atomic_write(path, "wb") as file:
        np.savez_compressed(
            file,
            grams=np.frombuffer("\n".join(model.rows).encode("utf-8"), np.uint8),
            languages=np.frombuffer(" ".join(model.languages).encode("utf-8"), np.uint8),
            table=model.table,
            calibration=np.array([model.scale, model.damping]),
        )


def count(training: dict[str, list[str]]) -> NgramTable:
    """Choose n-grams and compute their log ratios."""
    counts = [ngram_counts(training[language]) for language in LANGUAGES]
    grams = sorted({gram for own in counts for gram, times in own.items() if times >= LEAST})
    frequency = np.array([[own[gram] for own in counts] for gram in grams], dtype=np.float64) + SMOOTHING
    frequency /= np.array([own.total() for own in counts])
    log = np.log(frequency)
    ratio = log - np.log(frequency.mean(axis=1, keepdims=True))
    top = np.sort(log, axis=1)
    rival = np.where(log == top[:, -1:], top[:, -2:-1], top[:, -1:])  # of the other languages the most frequent
    chosen: set[int] = set()
    for score in (frequency * ratio, frequency * (log - rival)):
        for column in range(len(LANGUAGES)):
            best = np.argpartition(-score[:, column], BY_LANGUAGE // 2)[: BY_LANGUAGE // 2]
            chosen.update(best.tolist())
    rows = sorted(chosen)
    table = np.clip(np.round(ratio[rows] / STEP), -127, 127).astype(np.int8)
    return NgramTable(LANGUAGES, {grams[row]: place for place, row in enumerate(rows)}, table, 1.0, 0.0)


def ngram_counts(lines: list[str]) -> Counter[str]:
    by_word: Counter[str] = Counter()
    for line in lines:
        by_word.update(words(line))
        if by_word.total() > WORDS:
            break
    counts: Counter[str] = Counter()
    for word, times in by_word.items():
        for gram in ngrams([word]):
            counts[gram] += times
    return counts


def calibrate(model: NgramTable, held_out: dict[str, list[str]], rng: random.Random) -> NgramTable:
    """Fit scale and damping by the log-likelihood of snippets of 1 to 40 words of held-out lines."""
    sums, sizes, gold = [], [], []
    for label, language in enumerate(model.languages):
        lines = [line.split() for line in held_out[language]]
        for _ in range(400):
            line = rng.choice(lines)
            length = rng.choice((1, 2, 3, 5, 8, 12, 20, 40))
            start = rng.randrange(max(1, len(line) - length + 1))
            total, known = model.sums(" ".join(line[start : start + length]))
            if known:
                sums.append(total)
                sizes.append(known)
                gold.append(label)
    scores, counts, labels = np.array(sums), np.array(sizes), np.array(gold)

    def loss(scale: float, damping: float) -> float:
        probabilities = softmax(scores * scale * counts[:, None] ** -damping)
        return float(-np.log(probabilities[np.arange(len(labels)), labels] + 1e-12).mean())

    grid = [(scale, damping) for scale in np.geomspace(0.05, 3, 30) for damping in np.linspace(0, 0.9, 19)]
    scale, damping = min(grid, key=lambda pair: loss(*pair))
    print(f"held-out snippets: loss {loss(scale, damping):.3f}")
    return NgramTable(model.languages, model.rows, model.table, round(float(scale), 4), round(float(damping), 4))


def measure(model: NgramTable, data: Path) -> None:
    """Accuracy on the test sentences of the targets and the dev sentences of the sources."""
    print("language  sentences  right  said  right of 5 sentences together  mistaken for")
    total: list[Floats] = []
    for language in LANGUAGES:
        sentences = unseen(data, language)
        guesses = [model.guesses(sentence) for sentence in sentences]
        right = share_right(guesses, language)
        said = float(np.mean([found[0].probability if found else 0.0 for found in guesses]))
        blocks = [" ".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5)]
        right5 = share_right([model.guesses(block) for block in blocks], language)
        wrong = Counter(found[0].code for found in guesses if found and found[0].code != language)
        print(f"{language:8} {len(sentences):6} {right:8.1%} {said:8.1%} {right5:8.1%}  {wrong.most_common(3)}")
        total.append(np.array([right, said, right5]))
    mean = np.mean(total, axis=0)
    print(f"mean     {mean[0]:.1%} {mean[1]:.1%} {mean[2]:.1%}")


def share_right(guesses: list[list[Guess]], language: str) -> float:
    return float(np.mean([bool(found) and found[0].code == language for found in guesses]))


def unseen(data: Path, language: str) -> list[str]:
    for task, split in itertools.product(TASKS, ("test", "dev")):
        if path := DataFolder(data).labelled_file(task, language, split):
            return [" ".join(sentence.words) for sentence in columns.read(path, task=None)]
    raise SystemExit(f"{data} has neither test nor dev sentences of {language}")


if __name__ == "__main__":
    main()
