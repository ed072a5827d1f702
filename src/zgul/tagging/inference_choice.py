"""How a tagger infers for a language: its strategy and, where that has entropy minimisation (EM), EM's settings."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.adaptive import AdaptiveEM
from zgul.languages import find
from zgul.tagger import Tagger


@dataclass(frozen=True)
class Inference:
    """A strategy, and EM where the strategy has it."""

    strategy: str
    em: EMConfig | None = None
    skip_below: float = 0.0  # nats per word: EM leaves sentences with less entropy as they are

    @property
    def runs_em(self) -> bool:
        return self.em is not None and self.em.steps > 0

    def __str__(self) -> str:
        if self.em is None or not self.runs_em:
            return "no EM"
        details = [f"EM: {self.em.steps} step{'s' * (self.em.steps > 1)}", f"rate {self.em.lr:g}"]
        details += [f"for sentences of at least {self.skip_below:g} nats a word"] if self.skip_below else []
        details += [f"from {self.em.start}"] if self.em.start != "scores" else []
        details += ["over all positions"] if self.em.positions == "all" else []
        return ", ".join(details)


def choose_inference(
    tagger: Tagger,
    language: str,
    *,
    strategy: str | None = None,
    em: bool | None = None,
    adaptive: bool | None = None,
    changes: Mapping[str, Any] | None = None,
    adaptive_default: bool = True,
) -> Inference:
    """The inference that a user's choices mean for a tagger and a language.

    ``em`` switches EM on or off; by default the tagger's own strategy decides. ``changes`` are settings that replace
    those the tagger was tuned to. ``adaptive`` EM costs a fraction (`AdaptiveEM`). By default it is
    ``adaptive_default``, or off if there are ``changes``, which are used as they are given.
    """
    changes, method = changes or {}, tagger.method
    if em is False and changes:
        raise ZgulError("EM is switched off, so its settings have no meaning. Leave them out.")
    chosen = method.check_strategy(strategy or tagger.strategy)
    if (em or changes) and not method.uses_em(chosen):
        with_em = [name for name in method.strategies if method.uses_em(name)]
        if strategy or not with_em:
            what = f"The strategy {strategy!r} of {method.title}" if strategy else method.title
            raise ZgulError(f"{what} has no EM. See: zgul methods")
        chosen = with_em[0]
    config = tagger.em_for(language, chosen)
    if config is None:
        return Inference(chosen)
    if em is False:
        return Inference(chosen, replace(config, steps=0))
    wanted = em or changes or adaptive is False
    if wanted and config.steps == 0 and "steps" not in changes:
        problem = f"EM was tuned to no steps for {find(language).name}. Give --em-steps."
        warnings.warn(problem, ZgulWarning, stacklevel=3)
    config = EMConfig.from_dict(config.to_dict() | dict(changes))
    if not (adaptive_default and not changes if adaptive is None else adaptive):
        return Inference(chosen, config)
    rule = AdaptiveEM()
    return Inference(chosen, rule.cheaper(config), rule.skip_below)
