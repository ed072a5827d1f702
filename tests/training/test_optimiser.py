"""AdamW with clipping: torch's own, and close to it when products are computed in bfloat16."""

import copy

import pytest
import torch
from torch import nn

from small_tagger import MADE, small_batch, small_tagger
from zgul.methods import METHODS, MethodOptions
from zgul.methods.model import Model
from zgul.training import distributed
from zgul.training.optimiser import Optimiser, Stepper, tagging_loss

LANGUAGES = {"weighting.vectors.": 0.1, "weighting.lang2vec.": 0.1}
NO_LOSS = torch.zeros(())  # of one process, which has nothing to add up


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def steps(
    model: Model, optimiser: Optimiser, count: int, method: str = "zgul", precision: str = "float32"
) -> list[float]:
    batch = small_batch(small_tagger(method), [s for source in MADE.sources for s in MADE.sentences(source, 3)])
    stepper = Stepper(model, optimiser, torch.ones(3, 9, dtype=torch.bool), micro=100, precision=precision)
    return [float(stepper.step(batch)) for _ in range(count)]


# --- float32


def test_it_is_torchs_adamw_with_clipping_and_shares_of_the_rate() -> None:
    ours, theirs = small_tagger().model, small_tagger().model
    optimiser = Optimiser(ours, lr=1e-2, weight_decay=0.1, clip=0.5, shares=LANGUAGES)
    named = [(name, value) for name, value in theirs.named_parameters() if value.requires_grad]
    slow = [value for name, value in named if name.startswith(tuple(LANGUAGES))]
    quick = [value for name, value in named if not name.startswith(tuple(LANGUAGES))]
    adamw = torch.optim.AdamW([{"params": quick}, {"params": slow, "lr": 1e-3}], lr=1e-2, weight_decay=0.1)
    batch = small_batch(small_tagger(), MADE.sentences("s1", 4))
    for _ in range(3):
        for model in (ours, theirs):
            model.zero_grad()
            tagging_loss(model, batch, torch.ones(1, 9, dtype=torch.bool)).backward()
        optimiser.step(NO_LOSS)
        nn.utils.clip_grad_norm_([value for _, value in named], 0.5)
        adamw.step()
    for name, value in weights(ours).items():
        torch.testing.assert_close(value, theirs.get_parameter(name), rtol=1e-5, atol=1e-6, msg=name)


def test_rows_that_get_no_gradient_need_no_state() -> None:
    ours, theirs = (nn.Sequential(nn.Embedding(50, 4), nn.Linear(4, 2)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    used = torch.tensor([3, 7, 20])
    optimiser, plain = Optimiser(ours, lr=0.1, rows={"0.weight": used}), Optimiser(theirs, lr=0.1)
    for _ in range(4):
        for model, one in ((ours, optimiser), (theirs, plain)):
            model.zero_grad()
            model(used.repeat(2)).square().sum().backward()
            one.step(NO_LOSS)
    for name, value in weights(ours).items():
        torch.testing.assert_close(value, theirs.get_parameter(name))
    assert optimiser.weights["0.weight"].shape == (3, 4)
    assert {value.shape[0] for state in optimiser.adamw.state.values() for value in state.values() if value.dim()} <= {
        2,
        3,
    }
    optimiser.load({"0.weight": torch.ones(3, 4)})
    assert torch.equal(ours[0].weight[used], torch.ones(3, 4)), "loading reaches the model"
    assert not Optimiser(ours, lr=0.1, weight_decay=0.1, rows={"0.weight": used}).rows, "decay moves every row"


def test_gradients_are_clipped_together() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimiser = Optimiser(model, lr=0.1, clip=1e-3)
    (1e3 * model(torch.ones(5, 3))).square().sum().backward()
    optimiser.step(NO_LOSS)
    norm = torch.stack([value.grad.square().sum() for value in model.parameters()]).sum().sqrt()
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def test_the_rate_can_be_set_and_keeps_its_shares() -> None:
    optimiser = Optimiser(small_tagger().model, lr=1e-2, shares=dict.fromkeys(LANGUAGES, 0.1))
    optimiser.set_lr(5e-3)
    assert [group["lr"] for group in optimiser.adamw.param_groups] == pytest.approx([5e-3, 5e-4])
    assert len(Optimiser(small_tagger("sft-m").model, lr=1.0, shares=LANGUAGES).adamw.param_groups) == 1


def test_a_share_of_nothing_leaves_lang2vec_as_it_is() -> None:
    model = small_tagger().model
    before = weights(model)
    steps(model, Optimiser(model, lr=1e-2, shares=dict.fromkeys(LANGUAGES, 0.0)), 1)
    for name, value in model.named_parameters():
        if name.startswith(tuple(LANGUAGES)):
            assert torch.equal(before[name], value), name
    assert not torch.equal(before["head.weight"], model.head.weight)


def test_weights_are_the_models_own_and_can_be_loaded() -> None:
    model = small_tagger().model
    optimiser = Optimiser(model, lr=1e-2)
    assert all(value is model.get_parameter(name) for name, value in optimiser.weights.items())
    optimiser.load({"head.bias": torch.ones(9)})
    assert (model.head.bias == 1).all()


def test_parameters_without_a_gradient_stay() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimiser = Optimiser(model, lr=0.1)
    before = weights(model)["1.weight"]
    model[0](torch.ones(1, 3)).sum().backward()
    optimiser.step(NO_LOSS)
    assert torch.equal(model[1].weight, before)


def test_several_processes_add_up_the_gradients_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2))
    optimiser = Optimiser(model, lr=0.1, rows={"0.weight": torch.tensor([1, 3])})
    added: list[torch.Tensor] = []

    def add_up(weights: list[torch.Tensor], loss: torch.Tensor) -> None:
        added.extend(weight.grad.clone() for weight in weights if weight.grad is not None)

    monkeypatch.setattr(distributed, "sum_gradients", add_up)
    model(torch.tensor([1, 3, 1])).sum().backward()
    expected = model.get_parameter("0.weight").grad
    assert expected is not None
    optimiser.step(torch.zeros(()))
    assert any(torch.equal(gradient, expected[[1, 3]]) for gradient in added)


# --- bfloat16


@pytest.mark.parametrize("options", [{}, {"invertible": "mixed"}, {"encoder_rank": 2}, {"l_scores": "additive"}])
@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("madx", "sft-en")])
def test_bfloat16_is_close_to_float32(method: str, options: dict[str, object]) -> None:
    """Every method can be trained so: this is the default on a GPU."""
    exact = small_tagger(method, options=MethodOptions(dropout=0.0, **options), scale=0.1).model
    rough = copy.deepcopy(exact)
    losses = steps(exact, Optimiser(exact, lr=1e-3), 4, method)
    found = steps(rough, Optimiser(rough, lr=1e-3), 4, method, precision="bfloat16")
    assert losses[-1] < losses[0] and found == pytest.approx(losses, rel=0.02)
    assert {value.dtype for value in rough.parameters()} == {torch.float32}
    apart = [float((value - weights(rough)[name]).abs().max()) for name, value in weights(exact).items()]
    assert 0 < max(apart) <= 8e-3, "four steps of Adam move a weight by at most 4e-3"


def test_updates_too_small_for_bfloat16_add_up() -> None:
    model = small_tagger(options=MethodOptions(dropout=0.0)).model
    with torch.no_grad():
        model.head.bias.fill_(1.0)
    steps(model, Optimiser(model, lr=1e-5), 3, precision="bfloat16")
    moved = (model.head.bias - 1).abs()
    assert (moved > 1e-6).all() and (moved < 1e-4).all(), "bfloat16 cannot tell 0.9999 from 1"
