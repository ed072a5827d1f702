"""CUDA graphs: a step is captured once for each batch shape and replayed.

On a GPU, small models spend their time on kernel launches, not on arithmetic. A graph launches all kernels at once.

Gain on a GPU: not measured yet for each trick alone (`python -m benchmarks --device cuda --rows tricks`).
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

WARM_UP = 2  # plain calls of a shape before it is captured: libraries allocate their workspaces in them

Key = tuple[Any, ...]


class GraphedStep:
    """Calls ``step(*settings, **tensors)``. On a GPU, it captures a graph for each combination of settings and shapes.

    The step must not depend on the values of its tensors in Python, and it must change state in place. The result is
    overwritten by the next call.
    """

    def __init__(self, step: Callable[..., Tensor], most: int | None = None) -> None:
        """``most``: keep at most this many graphs. Further shapes run without a graph."""
        self.step, self.most = step, most
        self._graphs: dict[Key, tuple[torch.cuda.CUDAGraph, dict[str, Tensor], Tensor]] = {}
        self._calls: dict[Key, int] = {}
        self._side: torch.cuda.Stream | None = None  # one stream, because libraries keep a workspace for each

    def __call__(self, *settings: Hashable, **tensors: Tensor) -> Tensor:
        first = next(iter(tensors.values()))
        if not first.is_cuda:
            return self.step(*settings, **tensors)
        with torch.cuda.device_of(first):
            return self._on_gpu(settings, tensors)

    def _on_gpu(self, settings: Key, tensors: dict[str, Tensor]) -> Tensor:
        key = *settings, *(tensor.shape for tensor in tensors.values())
        if key not in self._graphs:
            if self.most is not None and len(self._graphs) >= self.most:
                return self.step(*settings, **tensors)
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] <= WARM_UP:  # a plain call on another stream than the default one: capturing needs that
                stream = self._side = self._side or torch.cuda.Stream()
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    result = self.step(*settings, **tensors)
                torch.cuda.current_stream().wait_stream(stream)
                return result
            self._capture(key, settings, tensors)
        graph, static, result = self._graphs[key]
        for name, tensor in tensors.items():
            static[name].copy_(tensor)
        graph.replay()
        return result

    def _capture(self, key: Key, settings: Key, tensors: dict[str, Tensor]) -> None:
        static = {name: tensor.clone() for name, tensor in tensors.items()}
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._graphs.values()))[0].pool() if self._graphs else None
        unit = torch.ones(1, 1, device=next(iter(static.values())).device)
        torch.mm(unit, unit)  # a thread's first product prepares the matrix library, which is forbidden while capturing
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # other threads continue
            result = self.step(*settings, **static)
        self._graphs[key] = (graph, static, result)
