"""Adaptive EM: fewer and longer steps, and never more work than it was given."""

import pytest

from zgul.ensemble.em import EMConfig
from zgul.fast.adaptive import AdaptiveEM


@pytest.mark.parametrize("steps", [2, 5, 10])
def test_steps_become_one_that_goes_twice_as_far(steps: int) -> None:
    config = EMConfig(steps=steps, lr=3.0, tied=True, start="probabilities")
    cheaper = AdaptiveEM().cheaper(config)
    assert cheaper == EMConfig(steps=1, lr=2 * 3.0 * steps, tied=True, start="probabilities")


@pytest.mark.parametrize("steps", [0, 1])
def test_what_is_cheap_already_stays(steps: int) -> None:
    config = EMConfig(steps=steps, lr=3.0)
    assert AdaptiveEM().cheaper(config) is config


def test_other_rules() -> None:
    rule = AdaptiveEM(steps=2, reach=1.5)
    assert rule.cheaper(EMConfig(steps=10, lr=4.0)) == EMConfig(steps=2, lr=30.0)
