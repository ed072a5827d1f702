"""The queue: turns, batches, faults and cancelling, with a tagger that only notes what it is given."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from zgul.corpora.sentence import Sentence
from zgul.serve.batching import BATCH_WORDS, GROWTH, TURN, Batcher, TaggingSettings
from zgul.serve.problems import Problem
from zgul.tagging.text_tagger import Inference


class NotingTagger:
    """Gives back the words, and fails at the word "bad"."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def predict(self, sentences: list[Sentence], **_: Any) -> list[str]:
        self.batches.append([sentence.words[0] for sentence in sentences])
        if any("bad" in sentence.words for sentence in sentences):
            raise ValueError("a bad word")
        return [sentence.words[0] for sentence in sentences]


def settings(tagger: NotingTagger, weights: bool = False) -> TaggingSettings:
    return TaggingSettings(tagger, Inference("plain"), weights)  # type: ignore[arg-type]


def sentences(name: str, count: int, words: int = TURN) -> list[Sentence]:
    return [Sentence([name] * words, language="fo") for _ in range(count)]


def run(tagger: NotingTagger, *works: Any, most: int = 10**6) -> list[Any]:
    """Queue all of the work at once, then let it be done."""

    async def main() -> list[Any]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(pool, most, lambda _: None)
            asked = [asyncio.create_task(batcher.predict(work)) for work in works]
            await asyncio.sleep(0)
            working = asyncio.create_task(batcher.run())
            answers = await asyncio.gather(*asked, return_exceptions=True)
            working.cancel()
            assert batcher.waiting == 0
            return answers

    return asyncio.run(main())


def test_requests_take_turns() -> None:
    tagger = NotingTagger()
    own = settings(tagger)
    per_batch = BATCH_WORDS // TURN
    answers = run(tagger, {own: sentences("long", 3 * per_batch)}, {own: sentences("short", 2)})
    assert answers[0] == {own: ["long"] * 3 * per_batch} and answers[1] == {own: ["short"] * 2}
    assert tagger.batches[0][:5] == ["long", "short", "long", "short", "long"]
    assert max(map(len, tagger.batches)) == per_batch and len(tagger.batches) == 4


def test_batches_grow_when_many_requests_wait() -> None:
    tagger = NotingTagger()
    own = settings(tagger)
    per_batch = BATCH_WORDS // TURN
    run(tagger, *({own: sentences(f"r{n}", 2)} for n in range(2 * per_batch)))
    assert tagger.batches[0] == [f"r{n}" for n in range(2 * per_batch)]  # each has a turn
    tagger.batches.clear()
    run(tagger, *({own: sentences(f"r{n}", 1)} for n in range(9 * per_batch)))
    assert [len(batch) // per_batch for batch in tagger.batches] == [GROWTH, GROWTH, 1]


def test_work_with_other_settings_gets_every_other_batch() -> None:
    first, second = NotingTagger(), NotingTagger()
    order: list[str] = []
    for name, tagger in (("first", first), ("second", second)):
        known = tagger.predict
        tagger.predict = lambda given, known=known, name=name, **_: order.append(name) or known(given)  # type: ignore[method-assign, misc, func-returns-value]
    run(first, {settings(first): sentences("a", 64)}, {settings(second): sentences("b", 3, words=4)})
    assert order[:2] == ["first", "second"]


def test_a_fault_is_that_of_its_request_alone() -> None:
    tagger = NotingTagger()
    own = settings(tagger)
    bad = [Sentence(["a", "bad"], language="fo")]
    answers = run(tagger, {own: sentences("good", 2)}, {own: bad}, {own: sentences("fine", 1)})
    assert answers[0] == {own: ["good", "good"]} and answers[2] == {own: ["fine"]}
    assert isinstance(answers[1], ValueError)


def test_nothing_to_do_and_too_much_to_do() -> None:
    tagger = NotingTagger()
    own = settings(tagger)
    answers = run(tagger, {own: []}, {}, {own: sentences("a", 2, 10)}, {own: sentences("b", 1, 1)}, most=20)
    assert answers[:3] == [{}, {}, {own: ["a", "a"]}]
    assert isinstance(answers[3], Problem) and answers[3].status_code == 503


def test_what_is_cancelled_is_not_begun() -> None:
    tagger = NotingTagger()
    own = settings(tagger)

    async def main() -> None:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(pool, 10**6, lambda _: None)
            asked = asyncio.create_task(batcher.predict({own: sentences("a", 5)}))
            await asyncio.sleep(0)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            working = asyncio.create_task(batcher.run())
            assert await batcher.predict({own: sentences("b", 1)}) == {own: ["b"]}
            working.cancel()

    asyncio.run(main())
    assert tagger.batches == [["b"]]


def test_batches_are_smaller_where_em_makes_more_work() -> None:
    from zgul.ensemble.em import EMConfig

    tagger: Any = NotingTagger()
    sizes = [TaggingSettings(tagger, Inference("em", EMConfig(steps=n)), False).batch_words for n in (0, 1, 20)]
    assert sizes == [BATCH_WORDS, BATCH_WORDS // 2, TURN]
