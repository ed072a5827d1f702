"""The made-up family: known relatedness, reproducible text, and false friends that only the language resolves."""

from collections import Counter, defaultdict

import numpy as np
import pytest
import torch

from family import CHAIN, FUNCTION_WORDS, MARKED, ORDERS, Family, family, tiny_encoder
from zgul.corpora.sentence import Sentence
from zgul.evaluation import scores

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_languages", [3, 5, 7])
def test_relatedness_is_known_and_visible_in_the_features(seed: int, n_languages: int) -> None:
    made = family(seed, n_languages)
    assert made.languages == [*made.sources, "target"] and len(made.languages) == n_languages
    similar = [made.similarity("target", source) for source in made.sources]
    assert similar == sorted(similar, reverse=True) and len(set(similar)) == len(similar)
    assert similar[0] > 1.3 * similar[1], "the unseen language is clearly nearest to s0"
    distances = [np.abs(made.features("target") - made.features(source)).sum() for source in made.sources]
    assert distances == sorted(distances) and len(set(distances)) == len(distances)


def test_similarity_and_features_are_well_formed() -> None:
    made = family(1)
    features = np.stack([made.features(language) for language in made.languages])
    assert features.dtype == np.float32 and set(np.unique(features)) == {0, 1}
    assert len(np.unique(features, axis=0)) == len(made.languages)
    for a in made.languages:
        assert made.similarity(a, a) == 1
        for b in made.languages:
            assert 0 <= made.similarity(a, b) == made.similarity(b, a) <= 1


def test_sound_changes_are_regular() -> None:
    made = family(2)
    for language in made.languages:
        # a change is a permutation of letters: letter by letter is the same as the whole word
        assert made.word("pakilobe", language) == "".join(made.word(letter, language) for letter in "pakilobe")
        assert sorted(made.word(made.alphabet, language)) == sorted(made.alphabet)
        assert all(made.word(w, language) == w for words in FUNCTION_WORDS.values() for w in words)
    assert len({made.word("bidugome", language) for language in made.languages}) == len(made.languages)


def test_same_seed_same_family_and_text() -> None:
    first, again, other = family(3), family(3), family(4)
    assert first.sentences("s1", 20, 7) == again.sentences("s1", 20, 7)
    assert first.sentences("s1", 20, 7) != first.sentences("s1", 20, 8)
    assert first.sentences("s1", 20, 7) != other.sentences("s1", 20, 7)
    assert first.text("s1", 2, 7) == [" ".join(s.words) for s in first.sentences("s1", 2, 7)]


def test_sentences_are_tagged_text_of_the_language() -> None:
    made = family(0)
    for language in made.languages:
        sentences = made.sentences(language, 300)
        assert all(isinstance(s, Sentence) and s.language == language for s in sentences)
        tags = Counter(tag for s in sentences for tag in s.tags)
        assert set(tags) == set(MARKED) | set(FUNCTION_WORDS)
        assert min(tags.values()) > 20
        assert set("".join(w for s in sentences for w in s.words)) <= set(made.alphabet + ".!")
        assert 4 < np.mean([len(s) for s in sentences]) < 12


def verb_final_share(made: Family, language: str) -> float:
    ends = [s.tags[-2] in ("VERB", "ADV") for s in made.sentences(language, 200)]
    return float(np.mean(ends))


def orders_of(made: Family, language: str) -> set[str]:
    """The word orders of a language, by the last of its features."""
    return {order for order, present in zip(ORDERS, made.features(language)[-len(ORDERS) :], strict=True) if present}


def test_word_orders_differ_and_the_target_has_the_parents() -> None:
    made = family(0)
    orders = {language: orders_of(made, language) for language in made.languages}
    assert [len(orders[source]) for source in made.sources] == [3, 2, 1, 0]
    assert orders["target"] == orders["s3"] == set()
    final = [language for language in made.languages if "verb_final" in orders[language]]
    assert final, "this seed has a verb-final branch"
    for language in made.languages:
        assert (verb_final_share(made, language) == 1) == (language in final)


class MarkerTagger:
    """The most frequent tag of a word's first two letters in the training text: no context, no network."""

    def __init__(self, sentences: list[Sentence]) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            for word, tag in zip(sentence.words, sentence.tags or [], strict=True):
                counts[self.key(word)][tag] += 1
        self.best = {key: count.most_common(1)[0][0] for key, count in counts.items()}

    def key(self, word: str) -> str:
        return word[:2] if word[0] in CHAIN else word

    def f1(self, sentences: list[Sentence]) -> float:
        gold = [s.tags for s in sentences]
        return scores(gold, [[self.best.get(self.key(word), "NOUN") for word in s.words] for s in sentences]).f1


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_nearest_source_knows_the_markers(seed: int) -> None:
    made = family(seed)
    target = made.sentences("target", 100)
    own = {source: MarkerTagger(made.sentences(source, 100)).f1(target) for source in made.sources}
    pooled = MarkerTagger([s for source in made.sources for s in made.sentences(source, 100)]).f1(target)
    assert own["s0"] == 100
    assert max(own[source] for source in made.sources[1:]) < 50
    assert pooled < 80


@pytest.mark.parametrize("n_languages", [2, 8])
def test_families_too_small_or_large(n_languages: int) -> None:
    with pytest.raises(ValueError, match="3 to 7 languages"):
        family(0, n_languages)


@torch.no_grad()
def test_tiny_encoder_reads_every_language() -> None:
    made = family(0)
    encoder, tokenizer = tiny_encoder(made)
    assert (encoder.depth, encoder.width) == (2, 64) and tokenizer.mask is not None
    for language in made.languages:
        for sentence in made.sentences(language, 5):
            pieces = [piece for cut in tokenizer.tokenise(sentence.words) for piece in cut]
            assert tokenizer.unknown not in pieces
            ids = torch.tensor([[tokenizer.begin, *pieces, tokenizer.end]])
            hidden = encoder(ids, torch.ones_like(ids, dtype=torch.bool))
            assert hidden.shape == (*ids.shape, 64) and hidden.isfinite().all()
    cut = [
        [tokenizer.backend.id_to_token(piece) for piece in pieces] for pieces in tokenizer.tokenise(["pakile", "jah"])
    ]
    assert cut == [["pa", "##ki", "##le"], ["ja", "##h"]]


def test_tiny_encoder_is_the_same_for_the_same_seed() -> None:
    made = family(0)
    state = torch.random.get_rng_state()
    words = [tiny_encoder(made, layers=1, width=32, seed=seed)[0].words.weight for seed in (0, 0, 1)]
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random state is left alone"
    assert torch.equal(words[0], words[1]) and not torch.equal(words[0], words[2])
