"""Adaptive EM: entropy minimisation at a fraction of its cost, with nearly the same tags. It is not in the paper.

Sentences that the model is certain of are skipped. The others take one long step instead of ten short ones.
docs/tagging.md describes how the rule was chosen.

Gain on a CPU (`make bench`): 2.7× faster than full EM with the shipped taggers on the paper's 15 test files.
At mBERT's width it was not measured: how many sentences are certain depends on a trained tagger, and none ships.
"""

from dataclasses import dataclass, replace

from zgul.ensemble.em import EMConfig


@dataclass(frozen=True)
class AdaptiveEM:
    """A rule that makes EM cheaper. It never does more than the settings it is applied to."""

    steps: int = 1  # the largest number of steps
    reach: float = 2.0  # fewer steps go this many times as far as all original steps together
    skip_below: float = 0.3  # nats per word: sentences with less entropy are certain already

    def cheaper(self, config: EMConfig) -> EMConfig:
        """These settings with fewer and longer steps."""
        if config.steps <= self.steps:
            return config
        return replace(config, steps=self.steps, lr=config.lr * self.reach * config.steps / self.steps)
