"""CUDA graphs: a step captured once per batch shape and replayed; small models are bound by kernel launches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

WARM_UP = 2  # plain calls of a shape before it is captured; libraries allocate their workspaces in them

Key = tuple[Any, ...]
_recorded = False


def recorded() -> bool:
    """Whether what is called now is recorded, or tried for that: then it costs nothing to launch many kernels."""
    return _recorded


@contextmanager
def recording() -> Iterator[None]:
    """Everything inside is recorded."""
    global _recorded
    before, _recorded = _recorded, True
    try:
        yield
    finally:
        _recorded = before


class GraphedStep:
    """Calls ``step(*how, **tensors)``; on a GPU as a captured graph, one for each ``how`` and set of shapes.

    The step must not depend on the values of its inputs in Python, and must change state in place.
    """

    def __init__(self, step: Callable[..., Tensor], most: int | None = None) -> None:
        """``most``: of how many sets of shapes a graph is kept; others are called plainly."""
        self.step, self.most = step, most
        self._graphs: dict[Key, tuple[torch.cuda.CUDAGraph, dict[str, Tensor], Tensor]] = {}
        self._seen: dict[Key, int] = {}
        self._side: torch.cuda.Stream | None = None  # one, because libraries keep a workspace for each

    def __call__(self, *how: Hashable, **tensors: Tensor) -> Tensor:
        first = next(iter(tensors.values()))
        if not first.is_cuda:
            return self.step(*how, **tensors)
        with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
            return self._on_gpu(how, tensors)

    def _on_gpu(self, how: Key, tensors: dict[str, Tensor]) -> Tensor:
        key = *how, *(tensor.shape for tensor in tensors.values())
        if key not in self._graphs:
            if self.most is not None and len(self._graphs) >= self.most:
                return self.step(*how, **tensors)
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] <= WARM_UP:
                with recording() if self._seen[key] == WARM_UP else nullcontext():  # the last is as what is captured
                    return self._warm_up(how, tensors)
            self._capture(key, how, tensors)
        graph, static, result = self._graphs[key]
        for name, tensor in tensors.items():
            static[name].copy_(tensor)
        graph.replay()
        return result

    def _warm_up(self, how: Key, tensors: dict[str, Tensor]) -> Tensor:
        """A plain call, off the default stream as capturing wants it."""
        stream = self._side = self._side or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self.step(*how, **tensors)
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self, key: Key, how: Key, tensors: dict[str, Tensor]) -> None:
        static = {name: tensor.clone() for name, tensor in tensors.items()}
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._graphs.values()))[0].pool() if self._graphs else None
        torch.cuda.synchronize()
        with recording(), torch.cuda.graph(graph, pool=pool):
            result = self.step(*how, **static)
        self._graphs[key] = (graph, static, result)
