"""All rows, by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch

from benchmarks.em_rows import adaptive, em, tag_rough
from benchmarks.forward_rows import count, forward
from benchmarks.harness import NotMeasured, Result, Unequal, say
from benchmarks.machine import multiplies_bf16
from benchmarks.process_rows import adapt, cold, jobs, start, stream
from benchmarks.setup import Context
from benchmarks.training_rows import mlm, training
from benchmarks.tricks import tricks

Row = Callable[[Context], Result | list[Result]]
ROWS: dict[str, Row] = {
    "em": em,
    "em-bf16": partial(em, precision="bfloat16"),
    "tag-bf16": tag_rough,
    "tag-onednn": partial(tag_rough, name="onednn"),
    "tag-int8": partial(tag_rough, name="int8", least=3.0),
    "tag-int8-ner": partial(tag_rough, name="int8", least=3.0, task="ner"),
    "forward": forward,
    "count": count,
    "adaptive": adaptive,
    "adaptive-t10": partial(adaptive, steps=10),
    "training": training,
    "start": start,
    "cold": cold,
    "jobs": jobs,
    "adapt": adapt,
    "stream": stream,
    "mlm": mlm,
    "tricks": tricks,
}
QUICK = [name for name in ROWS if name != "adapt"]


def run(
    context: Context, names: Iterable[str], on_row: Callable[[list[Result]], object] = lambda results: None
) -> list[Result]:
    """Measure the rows of these names. ``on_row`` receives all results after each row.

    If a row cannot be measured, or if its outputs differ, its result gives the reason.
    """
    results: list[Result] = []
    for name in names:
        say(name)
        try:
            if name.endswith("bf16") and not multiplies_bf16(context.device):
                raise NotMeasured("this CPU does not multiply in bf16")
            measured = ROWS[name](context)
            rows = measured if isinstance(measured, list) else [measured]
        except NotMeasured as error:
            rows = [Result(name, name, "", "", reason=f"not measured: {error}")]
        except Unequal as error:
            rows = [Result(name, name, "", "", met=False, reason=f"not timed, outputs differ: {error}")]
        say(f"{name}: " + "; ".join(row.reason or f"{row.key} {row.value:.3g} {row.unit}" for row in rows))
        results += rows
        on_row(results)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return results
