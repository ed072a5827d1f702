"""One optimiser step: the same update however the batch is cut, labels that a corpus lacks left alone."""

import copy

import pytest
import torch
from torch.nn import functional as F

from small_tagger import LABELS, MADE, small_tagger
from zgul.encoders.batches import IGNORED, Batch
from zgul.errors import ZgulError, ZgulWarning
from zgul.methods.model import Model
from zgul.tagger import Tagger
from zgul.training import optimiser as optimiser_module
from zgul.training.optimiser import Optimiser, Stepper, tagging_loss

INDEX = {label: n for n, label in enumerate(LABELS)}
ALL = torch.ones(3, len(LABELS), dtype=torch.bool)


@pytest.fixture
def tagger() -> Tagger:
    return small_tagger(double=True)


@pytest.fixture
def batch(tagger: Tagger) -> Batch:
    """Three corpora of three sentences, and an empty row."""
    sentences = [s for source in MADE.sources for s in MADE.sentences(source, 3)]
    table = tagger.language_table(MADE.sources)
    encoded = tagger.pieces.encode(sentences, labels=INDEX, languages=table, corpora=[n // 3 for n in range(9)])
    return encoded.batch(torch.tensor([*range(9), -1]), int(encoded.lengths.max()) + 2)


def make(model: Model, micro: int = 100) -> Stepper:
    return Stepper(model, Optimiser(model, lr=1e-2), ALL, micro, "float32")


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def assert_near(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], atol: float = 1e-9) -> None:
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=atol, msg=name)


def test_the_loss_is_the_cross_entropy_of_the_annotated_words(tagger: Tagger, batch: Batch) -> None:
    batch.labels[0, 1] = IGNORED
    logits = tagger.model(batch)
    total = torch.zeros((), dtype=torch.float64)
    for b, t in (batch.labels != IGNORED).nonzero().tolist():
        total = total - logits[b, t].log_softmax(dim=-1)[batch.labels[b, t]]
    torch.testing.assert_close(tagging_loss(tagger.model, batch, ALL).double(), total, rtol=1e-6, atol=1e-4)


def test_long_sentences_are_computed_in_parts_on_a_cpu(
    tagger: Tagger, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32 sentences of 150 pieces would take five gigabytes at once."""
    whole, parts = copy.deepcopy(tagger.model), copy.deepcopy(tagger.model)
    make(whole).step(batch)
    sizes = list[int]()
    parts.register_forward_pre_hook(lambda _, given: sizes.append(given[0].mask.numel()))
    monkeypatch.setattr(optimiser_module, "CPU_PIECES", 3 * batch.mask.shape[1])
    make(parts).step(batch)
    assert len(sizes) == 4 and max(sizes) == 3 * batch.mask.shape[1]
    torch.testing.assert_close(weights(whole), weights(parts))


@pytest.mark.parametrize("micro", [1, 3, 4])
def test_micro_batches_give_the_update_of_the_whole_batch(tagger: Tagger, batch: Batch, micro: int) -> None:
    whole, parts = tagger.model, copy.deepcopy(tagger.model)
    first, second = make(whole), make(parts, micro=micro)
    for _ in range(3):
        torch.testing.assert_close(first.step(batch), second.step(batch), rtol=1e-6, atol=1e-6)
    # the loss is summed in single precision, and Adam divides by the gradient's size
    assert_near(weights(whole), weights(parts), atol=1e-4)


def out_of_memory_above(limit: int, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> list[int]:
    """Batches of more sentences than ``limit`` run out of memory; gives the sizes that were tried."""
    tried: list[int] = []
    real = optimiser_module.tagging_loss

    def loss(model, part, allowed):
        tried.append(len(part))
        if len(part) > limit:
            raise error(
                "CUDA out of memory" if error is not RuntimeError else "DefaultCPUAllocator: can't allocate memory"
            )
        return real(model, part, allowed)

    monkeypatch.setattr(optimiser_module, "tagging_loss", loss)
    return tried


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, RuntimeError])
def test_out_of_memory_halves_the_batch_and_goes_on(
    tagger: Tagger, batch: Batch, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    plain, small = tagger.model, copy.deepcopy(tagger.model)
    make(plain).step(batch)
    tried = out_of_memory_above(3, monkeypatch, error)
    stepper = make(small, micro=10)
    with pytest.warns(ZgulWarning) as said:
        stepper.step(batch)
    assert [str(warning.message)[:34] for warning in said] == [f"out of memory: continuing with {n} s" for n in (5, 2)]
    assert stepper.micro == 2 and tried == [10, 5, 2, 2, 2, 2, 2]
    assert_near(weights(plain), weights(small), atol=1e-4)
    tried.clear()
    stepper.step(batch)
    assert tried == [2] * 5, "the next step starts with what fits"


def test_memory_that_is_too_small_for_one_sentence(
    tagger: Tagger, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = weights(tagger.model)
    out_of_memory_above(0, monkeypatch, torch.OutOfMemoryError)
    with (
        pytest.warns(ZgulWarning),
        pytest.raises(ZgulError, match="even with one of the sentences at a time; lower max_pieces"),
    ):
        make(tagger.model, micro=4).step(batch)
    assert_near(before, weights(tagger.model), atol=0)


def test_other_errors_are_not_taken_for_full_memory(
    tagger: Tagger, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(optimiser_module, "tagging_loss", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        make(tagger.model).step(batch)


def test_a_label_that_a_corpus_lacks_learns_nothing_from_it(tagger: Tagger, batch: Batch) -> None:
    masked = INDEX["ADV"]
    batch.labels[batch.labels == masked] = IGNORED
    allowed = torch.ones(3, len(LABELS), dtype=torch.bool)
    allowed[1, masked] = False
    head = tagger.model.head.weight
    for corpus, silent in ((0, False), (1, True), (2, False)):
        tagger.model.zero_grad()
        chosen = batch.corpora == corpus
        chosen[-1] = False
        part = batch.select(chosen)
        tagging_loss(tagger.model, part, allowed).backward()
        assert (head.grad[masked] == 0).all() == silent
        assert (head.grad[INDEX["NOUN"]] != 0).any()
    # and the others share the probability as if the label did not exist
    part = batch.select(batch.corpora == 1)
    logits = tagger.model(part)
    kept = [n for n in range(len(LABELS)) if n != masked]
    labels = torch.tensor([kept.index(n) if n in kept else IGNORED for n in part.labels.flatten().tolist()])
    expected = F.cross_entropy(logits[..., kept].flatten(0, 1), labels, ignore_index=IGNORED, reduction="sum")
    got = tagging_loss(tagger.model, part, allowed)
    torch.testing.assert_close(got.double(), expected, rtol=1e-6, atol=1e-4)


def test_a_batch_without_labels_changes_nothing(tagger: Tagger, batch: Batch) -> None:
    batch.labels.fill_(IGNORED)
    before = weights(tagger.model)
    assert float(make(tagger.model).step(batch)) == 0
    assert_near(before, weights(tagger.model), atol=0)
