"""int8: the layers of a folded model as an onnxruntime session whose matrix products are in 8 bits.

A product ``W x + b`` becomes one of whole numbers (`Graph.product`). x is rounded to 8 bits, with a step for each
column. The columns of W are multiplied by these steps, and W is then rounded to 8 bits, with a step for each row. A
large step makes x rough. A step that is larger than other columns' makes W rough. `Rounding.of` weighs the two errors.

The steps are fixed: `measure` reads random pieces with the float32 model. So they depend neither on the text nor on the
other sentences of a batch. Dividing x by the steps costs nothing where the matrix before it can do that: in attention's
values, in bottlenecks, in norms.

Sentences of one length run together, without padding. So a sentence gives the same bits in every batch.

Gain on a CPU with VNNI: tagging 2.8× faster (names 2.3×) with a shipped tagger (docs/performance.md), although
`zgul.fast.engine` reads some sentences again in float32.
`LayerNormalization` after `Add` is 7× as fast as onnxruntime's own joint form of the two (983 and 132 µs for 512
tokens), so the session runs without onnxruntime's rewriting.
"""

import contextlib
import hashlib
import importlib.util
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zgul.adapters.language_adapter import Bottleneck
from zgul.encoders.batches import Batch
from zgul.encoders.embedded import BLOCK, to_q4
from zgul.encoders.encoder import Encoder, masked_attention
from zgul.errors import ZgulError
from zgul.fast.folding import FoldedWeighting
from zgul.fast.stored import ORIGIN
from zgul.files import atomic_write, cache_dir
from zgul.methods.model import Model, softmax_scores

Floats = NDArray[np.float32]
Codes = tuple[str, "Rounding"]  # the name of a rounded tensor, and how it was rounded

VERSION = 2  # of the graph: a new number makes new files in the cache
NEEDED = ("onnx", "onnxruntime")
FLAGS = ("avx512_vnni", "avx_vnni", "asimddp")  # of CPUs with instructions for sums of 8-bit products
# Random pieces that are measured: this many for each length of a sentence, from the whole vocabulary and from its first
# eighth. The first pieces of a vocabulary are frequent ones, or single letters.
PIECES, LENGTHS, PARTS = 512, (4, 8, 16, 32), (1, 8)
BARE = 4  # one in so many sentences lacks the special pieces at its ends, which much of the attention goes to
# Codes of zero: for numbers of both signs, for outputs of GELU, for outputs of ReLU.
MIDDLE, GELU_ZERO, RELU_ZERO = 128, 32, 0
# Numbers may be this many times as large as any that was measured. Chosen on dev files of sources, like FLOOR.
MARGINS = {MIDDLE: 1.3, GELU_ZERO: 1.3, RELU_ZERO: 2.0}
FLOOR = 0.1  # of the largest column: columns that are rarely active were perhaps not seen at their largest
LOWEST_GELU = 0.17  # outputs of GELU are above its negative
ALPHAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)  # how much of the ranges of x goes into the steps: see `Rounding.of`
SETTINGS = (VERSION, MARGINS, FLOOR, ALPHAS, PIECES, LENGTHS, PARTS, BARE)
TINY = 1e-6
OPSET, IR_VERSION = 20, 10  # onnxruntime reads these since 1.18


@cache
def fast_in_int8() -> bool:
    """Whether this machine has the packages, and a CPU that is fast in 8 bits."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        return False
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text(encoding="utf-8", errors="replace").split()) if info.is_file() else set()
    return bool(flags & set(FLAGS)) or (platform.system(), platform.machine()) == ("Darwin", "arm64")


@dataclass(frozen=True)
class Columns:
    """What was measured of vectors x, for each of their columns."""

    largest: Tensor  # absolute value
    square: Tensor  # its mean


@dataclass(frozen=True)
class Rounding:
    """How vectors are rounded: ``x ≈ step · (code - zero)``, with codes from 0 to 255."""

    step: Tensor  # [columns]
    zero: int

    @classmethod
    def of(cls, columns: Columns, zero: int, weight: Tensor | None = None) -> "Rounding":
        """For vectors x that ``weight`` [rows, columns] is multiplied with.

        The smallest steps s_c are those that reach the largest x. Of all steps c · s_c^α / max|W_c|^(1-α) that are not
        smaller, those are chosen whose product is expected to be nearest to W x. 1/12 is the variance of a rounding.
        """
        largest = columns.largest
        if zero != MIDDLE:
            largest = torch.maximum(largest, FLOOR * largest.max())
        smallest = (MARGINS[zero] * largest / (255 - zero)).clamp(min=LOWEST_GELU / zero if zero == GELU_ZERO else TINY)
        if weight is None:
            return cls(smallest, zero)
        steps, reach = [], weight.abs().amax(dim=0).clamp(min=TINY)
        for alpha in ALPHAS:
            shape = smallest**alpha / reach ** (1 - alpha)
            steps.append(shape * (smallest / shape).max())
        return cls(min(steps, key=lambda step: expected_error(columns, weight, step)), zero)


def expected_error(columns: Columns, weight: Tensor, step: Tensor) -> float:
    """The expected square of what rounding x, and rounding W [rows, columns], change of W x."""
    of_x = (step**2 * weight.square().sum(dim=0)).sum() / 12
    rows = (weight * step).abs().amax(dim=1) / 127
    return float(of_x + rows.square().sum() / 12 * (columns.square / step**2).sum())


class Graph:
    """An ONNX graph in the making. All tensors are named."""

    def __init__(self) -> None:
        import onnx

        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, kind: Any = np.float32, name: str = "") -> str:
        name = name or f"constant{len(self.constants)}"
        array = np.array(value, kind, order="C")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def __call__(self, operator: str, *inputs: str, fused: bool = False, **options: Any) -> str:
        """Add an operator, and name its result. ``fused`` ones are onnxruntime's own."""
        return self.several(1, operator, *inputs, fused=fused, **options)[0]

    def several(self, count: int, operator: str, *inputs: str, fused: bool = False, **options: Any) -> list[str]:
        """The same for an operator with several results."""
        names = [f"{operator}{len(self.nodes)}_{number}" for number in range(count)]
        options |= {"domain": "com.microsoft"} if fused else {}
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, **options))
        return names

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def norm(self, x: str, norm: nn.LayerNorm, step: Tensor | float = 1.0) -> str:
        """LN(x), divided by steps."""
        parts = (self.constant((part.detach() / step).numpy()) for part in (norm.weight, norm.bias))
        return self("LayerNormalization", x, *parts, axis=-1, epsilon=norm.eps)

    def rounded(self, x: str, rounding: Rounding, *, divided: bool = False) -> Codes:
        """The codes of x. ``divided``: its columns were divided by their steps before."""
        x = x if divided else self("Mul", x, self.constant(1 / rounding.step.numpy()))
        unit, zero = self.constant(1.0), self.constant(rounding.zero, np.uint8)
        return self("QuantizeLinear", x, unit, zero), rounding

    def product(self, codes: Codes, weight: Tensor, bias: Tensor) -> str:
        """``W x + b`` for codes of x and W [rows, columns]."""
        x, rounding = codes
        scaled = (weight.detach() * rounding.step).numpy()
        step = np.maximum(np.abs(scaled).max(axis=1), TINY * TINY) / 127  # [rows]
        whole = self.constant(np.rint(scaled / step[:, None]).T, np.int8)
        zeros = (self.constant(rounding.zero, np.uint8), self.constant(np.zeros(len(step)), np.int8))
        rest = (self.constant(1.0), self.constant(step), *zeros, self.constant(bias.detach().numpy()))
        return self("MatMulIntegerToFloat", x, whole, *rest, fused=True)

    def serialised(self, inputs: dict[str, tuple[Any, list[Any]]], output: str, labels: int) -> bytes:
        make, kinds = self.onnx.helper, self.onnx.TensorProto
        given = [make.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
        self.nodes.append(make.make_node("Identity", [output], ["logits"]))
        made = [make.make_tensor_value_info("logits", kinds.FLOAT, ["B", "T", labels])]
        graph = make.make_graph(self.nodes, "zgul", given, made, self.constants)
        versions = [make.make_opsetid("", OPSET), make.make_opsetid("com.microsoft", 1)]
        data: bytes = make.make_model(graph, opset_imports=versions, ir_version=IR_VERSION).SerializeToString()
        return data


@torch.no_grad()
def measure(model: Model, ends: tuple[int, int]) -> dict[str, Columns]:
    """Measure the columns of all that is rounded, on random pieces between ``ends``, by the module that it enters.

    ``weighting.3`` is what leaves the bottlenecks of the bank in layer 3.
    """
    largest: dict[str, Tensor] = {}
    squares: dict[str, list[Tensor]] = {}

    def note(name: str, value: Tensor) -> None:
        x = value.flatten(0, -2)
        now = x.abs().amax(dim=0)
        largest[name] = torch.maximum(now, largest.get(name, now))
        squares.setdefault(name, []).append(x.square().mean(dim=0))  # each batch has the same number of pieces

    def note_bank(bank: nn.Module, given: tuple[int, Tensor], outputs: Any) -> None:
        note(f"bank.{given[0]}", given[1])
        note(f"weighting.{given[0]}", outputs.a.flatten(-2))

    def noting(name: str) -> Callable[..., None]:
        return lambda module, given: note(name, given[0])

    hooks = [
        module.register_forward_pre_hook(noting(name))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("weighting")
    ]
    hooks += [model.bank.register_forward_hook(note_bank)] if model.bank is not None else []
    try:
        equal = torch.zeros(1, 1, len(model.bank) if model.bank is not None else 1)  # scores of all adapters
        for ids in random_pieces(model.encoder, ends):
            spoken = torch.ones(*ids.shape, 1)
            model.read(model.encoder.embed(ids), masked_attention(None), equal, spoken, softmax_scores)
    finally:
        for hook in hooks:
            hook.remove()
    return {name: Columns(largest[name], torch.stack(each).mean(dim=0)) for name, each in squares.items()}


def random_pieces(encoder: Encoder, ends: tuple[int, int]) -> Iterator[Tensor]:
    """Batches [B, T] of random pieces, the same ones each time."""
    chance = torch.Generator().manual_seed(0)
    for length in LENGTHS:
        shape = (PIECES // length, min(length, encoder.max_pieces))
        for part in PARTS:
            ids = torch.randint(max(1, encoder.config.vocabulary // part), shape, generator=chance)
            ids[len(ids) // BARE :, 0], ids[len(ids) // BARE :, -1] = ends
            yield ids


def fits(model: Model) -> bool:
    """Whether a folded model can be written as a graph here."""
    bank, adapters = model.bank, cast(Iterable[Bottleneck], model.task)
    task = [adapter for adapter in adapters if adapter.activation != "relu" or adapter.standardise]
    plain = bank is None or (set(bank.activations) == {"relu"} and not any(bank.standardise))
    folded = isinstance(model.weighting, FoldedWeighting) if bank is not None else model.generator is None
    config = model.encoder.config
    bert = config.activation == "gelu" and not config.rotary
    return plain and folded and bert and not task and model.invertible == "off"


def check(model: Model) -> None:
    if not fits(model):
        known = "ZGUL with narrow adapters of the usual kind, and fine-tuned encoders"
        raise ZgulError(f"int8 is for {known}. This tagger is another model. Use --precision float32 or bfloat16.")


@torch.no_grad()
def to_graph(model: Model, ends: tuple[int, int]) -> bytes:
    """Write the layers and the head of a folded model as ONNX. Embeddings [B, T, d] go in, label scores come out.

    ``ends`` are the special pieces that a sentence begins and ends with.
    """
    check(model)
    writer = _Writer(model, ends)
    logits, kinds = writer.layers("hidden"), writer.graph.onnx.TensorProto
    inputs = {"hidden": (kinds.FLOAT, ["B", "T", model.encoder.width])}
    if model.bank is not None:
        inputs |= {"languages": (kinds.INT64, ["B", "T"]), "by_language": (kinds.FLOAT, ["L", "M", len(model.bank)])}
    return writer.graph.serialised(inputs, logits, model.head.out_features)


@torch.no_grad()
def to_whole_graph(model: Model, ends: tuple[int, int], words: Tensor, by_language: Tensor) -> bytes:
    """Write a folded model for one language as ONNX. Piece ids [B, T] go in, all pieces of sentences of one length.

    ``words`` [V, d] are the rows of the vocabulary that the file has, and ``by_language`` [L, 1, N] the language's
    scores.
    """
    check(model)
    writer = _Writer(model, ends)
    graph = writer.graph
    graph.constant(by_language.expand(model.encoder.depth, -1, -1).numpy(), name="by_language")
    graph.nodes.append(graph.onnx.helper.make_node("Sub", ["input_ids", "input_ids"], ["languages"]))  # all zero
    logits = writer.layers(writer.embedded("input_ids", words.numpy()))
    inputs = {"input_ids": (graph.onnx.TensorProto.INT64, ["B", "T"])}
    return graph.serialised(inputs, logits, model.head.out_features)


class _Writer:
    """Writes the parts of a model into a graph."""

    def __init__(self, model: Model, ends: tuple[int, int]) -> None:
        self.model, self.graph, self.measured = model, Graph(), measure(model, ends)

    def rounding(self, name: str, weight: Tensor | None = None, zero: int = MIDDLE) -> Rounding:
        return Rounding.of(self.measured[name], zero, weight)

    def product(self, x: str, name: str, linear: nn.Linear, zero: int = MIDDLE) -> str:
        return self.graph.product(self.graph.rounded(x, self.rounding(name, linear.weight, zero)), *_matrix(linear))

    def embedded(self, ids: str, words: Floats) -> str:
        """`Encoder.embed`, with words in the 4-bit blocks of the embedded encoder, or in 8 bits with a step a row."""
        graph, encoder = self.graph, self.model.encoder
        count, width = words.shape
        real, shape = int(graph.onnx.TensorProto.FLOAT), graph.integers(0, 0, width)
        blocks = to_q4(words.reshape(-1, BLOCK)) if width % BLOCK == 0 else None
        if blocks is None:
            step = np.maximum(np.abs(words).max(axis=1, keepdims=True), TINY) / 127
            scales, codes = graph.constant(step), graph.constant(np.rint(words / step), np.int8)
            whole = graph("Cast", graph("Gather", codes, ids), to=real)
        else:
            scales = graph.constant(blocks[0].reshape(count, -1, 1), np.float16)
            bytes_ = graph("Gather", graph.constant(blocks[1].reshape(count, -1, BLOCK // 2), np.uint8), ids)
            low = graph("BitwiseAnd", bytes_, graph.constant(15, np.uint8))
            high = graph("BitShift", bytes_, graph.constant(4, np.uint8), direction="RIGHT")
            whole = graph("Cast", graph("Concat", low, high, axis=-1), to=real)
            whole = graph("Sub", whole, graph.constant(8.0))
        steps = graph("Cast", graph("Gather", scales, ids), to=real)
        vectors = graph("Reshape", graph("Mul", whole, steps), shape)
        places = (encoder.positions.weight[encoder.config.first_position :] + encoder.types.weight[0]).numpy()
        length = graph("Shape", ids, start=1, end=2)
        near = graph("Slice", graph.constant(places), graph.integers(0), length)
        return graph.norm(graph("Add", vectors, near), encoder.norm)

    def layers(self, hidden: str) -> str:
        """Label scores from embeddings."""
        graph, model = self.graph, self.model
        for index in range(model.encoder.depth):
            layer: Any = model.encoder.layers[index]
            total = self.encoder_layer(index, hidden)
            if model.bank is not None:
                total = graph("Add", total, self.ensemble(index, total))
            if len(model.task):
                total = graph("Add", total, self.task(index, total))
            hidden = graph.norm(total, layer.norm)
        return self.product(hidden, "head", model.head)

    def encoder_layer(self, index: int, hidden: str) -> str:
        """`Encoder.layer`: f + x."""
        graph, name = self.graph, f"encoder.layers.{index}"
        parts: Any = self.model.encoder.layers[index]
        context_is = self.rounding(f"{name}.attended", parts.attended.weight)
        # attention takes sums of values, so that its context is divided by steps if the values are
        value = (parts.value.weight / context_is.step[:, None], parts.value.bias / context_is.step)
        joined = zip((parts.query.weight, parts.query.bias), (parts.key.weight, parts.key.bias), value, strict=True)
        undivided = torch.cat([parts.query.weight, parts.key.weight, parts.value.weight])
        codes = graph.rounded(hidden, self.rounding(f"{name}.query", undivided))
        views = graph.several(3, "Split", graph.product(codes, *map(torch.cat, joined)), axis=-1, num_outputs=3)
        context = graph("MultiHeadAttention", *views, fused=True, num_heads=self.model.encoder.config.heads)
        attended = graph.product(graph.rounded(context, context_is, divided=True), *_matrix(parts.attended))
        x = graph.norm(graph("Add", attended, hidden), parts.attention_norm)
        inner = graph("Gelu", self.product(x, f"{name}.inner", parts.inner))
        return graph("Add", self.product(inner, f"{name}.outer", parts.outer, GELU_ZERO), x)

    def ensemble(self, index: int, total: str) -> str:
        """`FoldedWeighting`: the mix of a layer, from f + x."""
        graph, bank, weighting = self.graph, self.model.bank, self.model.weighting
        norm: Any = self.model.encoder.layers[index].norm
        assert bank is not None and isinstance(weighting, FoldedWeighting)
        _, count, size, _ = bank.up.shape
        bottlenecks = self.rounding(f"weighting.{index}", zero=RELU_ZERO)
        step = bottlenecks.step
        # ReLU(x) / step = ReLU(x / step); what bottlenecks are multiplied with makes up for it
        larger = torch.cat([step, step.new_ones(count)])
        matrix = torch.cat([bank.down[index].flatten(0, 1) / step[:, None], weighting.into[index] * larger[:, None]])
        bias = torch.cat([bank.down_bias[index].flatten() / step, weighting.into_bias[index] * larger])
        h_is = self.rounding(f"bank.{index}", torch.cat([bank.down[index].flatten(0, 1), weighting.into[index]]))
        h = graph.rounded(graph.norm(total, norm, h_is.step), h_is, divided=True)
        both = graph.product(h, matrix, bias)
        sizes = graph.integers(count * size, count * size, count)
        a, inner, outer = graph.several(3, "Split", both, sizes, axis=-1)
        a, shape, last = graph("Relu", a), graph.integers(0, 0, count, size), graph.integers(-1)
        products = graph("Reshape", graph("Mul", a, inner), shape)
        fusion = graph("Add", graph("ReduceSum", products, last, keepdims=0), outer)
        own = graph("Gather", graph("Gather", "by_language", graph.constant(index, np.int64)), "languages")
        weights = [graph("Softmax", scores, axis=-1) for scores in (fusion, own)]  # [B, T, N]
        a = graph("Reshape", a, shape)
        views = [graph("Mul", a, graph("Unsqueeze", weight, last)) for weight in weights]
        scaled = graph("Reshape", graph("Concat", *views, axis=2), graph.integers(0, 0, 2 * count * size))
        codes = graph.rounded(scaled, Rounding(step.repeat(2), RELU_ZERO), divided=True)
        mixed = graph.product(codes, weighting.leave[index].mT, weighting.mix_bias[index])
        biases = graph.constant(weighting.leave_bias[index].numpy())
        return graph("Add", mixed, graph("MatMul", graph("Concat", *weights, axis=-1), biases))

    def task(self, index: int, total: str) -> str:
        """The task adapter of a layer."""
        graph, adapter = self.graph, cast(Bottleneck, self.model.task[index])
        norm: Any = self.model.encoder.layers[index].norm
        inner_is = self.rounding(f"task.{index}.up", adapter.up.weight, RELU_ZERO)
        down, bias = _matrix(adapter.down)
        h_is = self.rounding(f"task.{index}.down", down)
        h = graph.rounded(graph.norm(total, norm, h_is.step), h_is, divided=True)
        inner = graph.product(h, down / inner_is.step[:, None], bias / inner_is.step)
        # codes from 0 on cut off what is negative, as ReLU does
        return graph.product(graph.rounded(inner, inner_is, divided=True), *_matrix(adapter.up))


def _matrix(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    return linear.weight, linear.bias


class Int8Layers:
    """The session of a folded model, made when it is first used. Several threads may use it."""

    def __init__(self, model: Model) -> None:
        if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
            raise ZgulError(f"int8 needs {', '.join(missing)}. Install them: pip install {' '.join(missing)}")
        check(model)
        self.model = model
        self.session = cache(self._session)

    def _session(self, ends: tuple[int, int]) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads must not burn a core
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(_stored(self.model, ends), options, providers=["CPUExecutionProvider"])

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        """Label scores [B, T, C] of a batch, zero in its padding."""
        encoder, lengths = self.model.encoder, batch.mask.sum(dim=1)
        session = self.session((int(batch.input_ids[0, 0]), int(batch.input_ids[0, lengths[0] - 1])))
        scores = torch.zeros(*batch.input_ids.shape, self.model.head.out_features)
        by_language = self.model.languages(batch)[0].expand(encoder.depth, -1, -1).contiguous().numpy()
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero().squeeze(1)
            inputs = {"hidden": encoder.embed(batch.input_ids[rows, :length]).numpy()}
            if self.model.bank is not None:
                inputs |= {"languages": batch.languages[rows, :length].numpy(), "by_language": by_language}
            scores[rows, :length] = torch.from_numpy(session.run(None, inputs)[0])
        return scores


def _stored(model: Model, ends: tuple[int, int]) -> str | bytes:
    """The graph of a model: its file in the cache folder, or the graph itself when it was just made."""
    digest = hashlib.sha256(f"{SETTINGS} {ends} {_identity(model)}".encode())
    path = cache_dir() / f"int8-{digest.hexdigest()[:24]}.onnx"
    if path.is_file():
        return str(path)
    data = to_graph(model, ends)
    with contextlib.suppress(OSError), atomic_write(path, "wb") as file:  # without a cache, it only takes longer
        file.write(data)
    return data


def _identity(model: Model) -> str:
    """What tells a model from others: the name of its file, or a checksum of its weights."""
    if origin := vars(model).get(ORIGIN):
        return str(origin)
    digest = hashlib.sha256()
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        # the vocabulary is not in the graph, and large: a part of it tells models apart
        part = value[:: max(1, len(value) // 1000)] if name == "encoder.words.weight" else value
        digest.update(f"{name} {list(value.shape)}".encode())
        digest.update(part.detach().contiguous().numpy().data)
    return digest.hexdigest()
