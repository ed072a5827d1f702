"""A made-up family of languages with known relatedness, and a tiny random encoder for it.

Tests use it as ``from family import family, tiny_encoder``. A parent language changes along one line of
descent; the sources split off one after the other, and the unseen language is a sister of the last one:

    parent ─┬─ s3            each stem: a step of a chain shift, other sound changes, a new word order
            └┬─ s2           each source: sound changes of its own, the more the earlier it split off
             └┬─ s1          target: sound changes of its own, and back to the parent's word orders
              └┬─ s0
               └─ target

Open-class words are a class marker and a root, and the markers (``pa``, ``ta``, ``ka``, ``sa``) are all that
tells NOUN, VERB, ADJ and ADV apart. The chain shift p > t > k > s > p turns each marker into the next one, so
that what is a noun in one source is a verb in the next: false friends that only knowing the language resolves.
No letter is new anywhere and function words never change, so a sentence gives its language away only by its
roots, which differ in the unseen language, and by its word order, which misleads: the target's is that of its
furthest relative. Markers are prefixes because taggers read a word's first piece.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from zgul.corpora.sentence import Sentence
from zgul.encoders.encoder import Encoder, EncoderConfig
from zgul.encoders.modern import ModernEncoder
from zgul.encoders.rotary import Rotary
from zgul.encoders.tokenizer import PieceTokenizer

CHAIN = "ptks"  # the consonants of the class markers, in the order of the chain shift
CONSONANTS = "bdgmnlr"
VOWELS = "eiou"
MARKED = ("NOUN", "VERB", "ADJ", "ADV")  # class i is marked by CHAIN[i] + "a" in the parent
FUNCTION_WORDS = {  # of letters that no change touches
    "DET": ("ha", "wa"),
    "ADP": ("hawa", "jaha", "waja"),
    "PRON": ("ja", "jawa", "haja"),
    "CCONJ": ("jah",),
    "PUNCT": (".", "!"),
}
ORDERS = ("verb_final", "adjective_after", "determiner_after", "postposition", "adverb_first")


@dataclass(frozen=True)
class Change:
    """A regular sound change (each letter of ``cycle`` becomes the next) or the flip of one word order."""

    cycle: str = ""
    order: str = ""

    def apply(self, word: str) -> str:
        return word.translate(str.maketrans(self.cycle, self.cycle[1:] + self.cycle[:1]))


Events = tuple[tuple[int, Change], ...]  # numbered: the same change may happen twice, in two places


class Family:
    """Languages, what was changed on the way to each of them, and their text."""

    def __init__(self, seed: int, n_languages: int, roots: int) -> None:
        self.seed = seed
        rng = np.random.default_rng([seed, 0])
        n_sources = n_languages - 1
        self.sources = [f"s{i}" for i in range(n_sources)]  # s0 is the nearest to the target
        self.target = "target"
        self.languages = [*self.sources, self.target]
        self.changes = _descend(n_sources, rng)
        self.roots = _roots(roots, rng)
        self.alphabet = "".join(sorted(set(CHAIN + CONSONANTS + VOWELS + "hjwa")))

    def similarity(self, a: str, b: str) -> float:
        """True relatedness: the share of the changes on the way to either language that both went through."""
        first, second = set(self.changes[a]), set(self.changes[b])
        return len(first & second) / len(first | second) if first | second else 1.0

    def features(self, language: str) -> np.ndarray:
        """Binary typology, float32: which changes the language went through, and its word orders."""
        own = self.changes[language]
        undergone = [event in own for event in self._events]
        orders = [order in self._orders(language) for order in ORDERS]
        return np.array(undergone + orders, dtype=np.float32)

    def word(self, parent: str, language: str) -> str:
        """What a word of the parent has become."""
        for event in self.changes[language]:
            parent = event[1].apply(parent)
        return parent

    def sentences(self, language: str, n: int, seed: int = 0) -> list[Sentence]:
        """Tagged sentences of a language, the same for the same seed."""
        rng = np.random.default_rng([self.seed, 1, self.languages.index(language), seed])
        return [self._sentence(language, rng) for _ in range(n)]

    def text(self, language: str, n: int, seed: int = 0) -> list[str]:
        """Raw text, a sentence a line."""
        return [" ".join(sentence.words) for sentence in self.sentences(language, n, seed)]

    @cached_property
    def _events(self) -> list[tuple[int, Change]]:
        """All changes of the family, in the order in which they were drawn."""
        return sorted({event for events in self.changes.values() for event in events}, key=lambda event: event[0])

    def _orders(self, language: str) -> set[str]:
        flips = Counter(event[1].order for event in self.changes[language])
        return {order for order, times in flips.items() if order and times % 2}

    def _sentence(self, language: str, rng: np.random.Generator) -> Sentence:
        tags = _clause(self._orders(language), rng)
        words = [self.word(self._parent_word(tag, rng), language) for tag in tags]
        return Sentence(words, tags, language)

    def _parent_word(self, tag: str, rng: np.random.Generator) -> str:
        if tag in FUNCTION_WORDS:
            choices = FUNCTION_WORDS[tag]
            return choices[rng.integers(len(choices))]
        root = self.roots[int(len(self.roots) * rng.random() ** 2)]  # some roots are frequent, most are not
        return CHAIN[MARKED.index(tag)] + "a" + root


def family(seed: int = 0, n_languages: int = 5, roots: int = 300) -> Family:
    """Languages ``s0`` (nearest) to ``s{n-2}`` and the unseen ``target``; up to five, no two sources agree."""
    if not 3 <= n_languages <= len(ORDERS) + 2:
        raise ValueError(f"a family has 3 to {len(ORDERS) + 2} languages, not {n_languages}")
    return Family(seed, n_languages, roots)


def _descend(n_sources: int, rng: np.random.Generator) -> dict[str, Events]:
    """The numbered changes on the way to each language, oldest first."""
    number = 0

    def happen(*new: Change) -> Events:
        nonlocal number
        number += len(new)
        return tuple(enumerate(new, start=number - len(new)))

    def sounds(count: int) -> tuple[Change, ...]:
        return tuple(Change(cycle=_cycle(rng)) for _ in range(count))

    stem: Events = ()
    changes: dict[str, Events] = {}
    orders = [str(order) for order in rng.permutation(ORDERS)]
    for source in reversed(range(n_sources)):
        changes[f"s{source}"] = stem + happen(*sounds(1 + 2 * source))
        if source:
            stem += happen(Change(cycle=CHAIN), *sounds(3), Change(order=orders.pop()))
    reverted = [Change(order=event[1].order) for event in stem if event[1].order]
    changes["target"] = stem + happen(*sounds(2), *reverted)
    return changes


def _cycle(rng: np.random.Generator) -> str:
    """Three letters that shift in a ring; never those of the markers."""
    letters = list(VOWELS if rng.random() < 0.3 else CONSONANTS)
    return "".join(rng.permutation(letters)[:3])


def _roots(count: int, rng: np.random.Generator) -> list[str]:
    consonants = list(CHAIN + CONSONANTS)
    roots: dict[str, None] = {}
    while len(roots) < count:
        letters = [str(rng.choice(letters)) for letters in (consonants, list(VOWELS)) * 2]
        roots["".join(letters)] = None
    return list(roots)


def _clause(orders: set[str], rng: np.random.Generator) -> list[str]:
    """The tags of one clause, or of two joined by a conjunction."""
    subject, verb = _noun_phrase(orders, rng), ["VERB"]
    objects = _noun_phrase(orders, rng) if rng.random() < 0.6 else []
    if rng.random() < 0.4:
        phrase = _noun_phrase(orders, rng)
        objects += [*phrase, "ADP"] if "postposition" in orders else ["ADP", *phrase]
    if rng.random() < 0.5:
        verb = ["ADV", "VERB"] if "adverb_first" in orders else ["VERB", "ADV"]
    clause = subject + (objects + verb if "verb_final" in orders else verb + objects)
    if len(clause) < 5 and rng.random() < 0.5:
        return [*clause, "CCONJ", *_clause(orders, rng)]
    return [*clause, "PUNCT"]


def _noun_phrase(orders: set[str], rng: np.random.Generator) -> list[str]:
    if rng.random() < 0.2:
        return ["PRON"]
    phrase = ["NOUN"]
    if rng.random() < 0.4:
        phrase = ["NOUN", "ADJ"] if "adjective_after" in orders else ["ADJ", "NOUN"]
    if rng.random() < 0.5:
        phrase = [*phrase, "DET"] if "determiner_after" in orders else ["DET", *phrase]
    return phrase


@torch.no_grad()
def random_encoder(config: EncoderConfig, std: float = 0.02) -> Encoder:
    """An encoder with random matrices, as BERT starts before it is trained."""
    with torch.device("meta"):
        encoder = ModernEncoder(config) if config.rotary else Encoder(config)
    encoder.to_empty(device="cpu")
    for name, parameter in encoder.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=std)
        else:
            parameter.fill_(float(name.endswith("norm.weight")))
    return encoder.requires_grad_(False).eval()


def tiny_encoder(
    family: Family, layers: int = 2, width: int = 64, seed: int = 0, modern: bool = False
) -> tuple[Encoder, PieceTokenizer]:
    """A random BERT or ModernBERT and a WordPiece tokenizer of syllables and letters; nothing is read or saved."""
    tokenizer = tiny_tokenizer(family)
    config = EncoderConfig(
        vocabulary=tokenizer.backend.get_vocab_size(),
        width=width,
        depth=layers,
        heads=4,
        inner=2 * width,
        positions=128,
        types=2,
        pad=tokenizer.pad,
        model_type="modernbert" if modern else "bert",
        rotary=tuple(Rotary(100.0, 3 if n % 2 else None) for n in range(layers)) if modern else (),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # BERT's standard deviation of 0.02 would leave so narrow a random encoder without effect
        return random_encoder(config, std=width**-0.5), tokenizer


def tiny_tokenizer(family: Family) -> PieceTokenizer:
    """WordPiece whose pieces are the family's syllables, and its letters for what is left."""
    letters = sorted(family.alphabet)
    vowels = set(VOWELS + "a")
    syllables = [c + v for c in letters if c not in vowels for v in sorted(vowels)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = special + list(FUNCTION_WORDS["PUNCT"]) + letters + syllables
    pieces += [f"##{piece}" for piece in letters + syllables]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PieceTokenizer.wrap(backend)
