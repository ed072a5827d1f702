"""The language adapter of one language, outside a bank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from zgul.adapters.bottleneck import Bottleneck, Invertible
from zgul.errors import ZgulError


@dataclass
class LanguageAdapter:
    """A bottleneck for each layer of an encoder and, perhaps, an invertible block."""

    language: str
    layers: list[Bottleneck]
    invertible: Invertible | None = None
    about: dict[str, object] = field(default_factory=dict)  # how it was made, for cards

    @classmethod
    def new(
        cls, language: str, width: int, depth: int, *, size: int = 0, activation: str = "relu", invertible: bool = False
    ) -> Self:
        """An adapter that changes nothing yet. Its bottleneck is half the encoder's width, or ``size``."""
        layers = [Bottleneck(width, size or max(1, width // 2), activation) for _ in range(depth)]
        return cls(language, layers, Invertible(width, activation=activation) if invertible else None)

    @property
    def width(self) -> int:
        return self.layers[0].down.in_features

    @property
    def sizes(self) -> list[int]:
        """The bottleneck of each layer. AdapterHub allows different ones."""
        return [layer.down.out_features for layer in self.layers]

    @property
    def activation(self) -> str:
        return self.layers[0].activation

    @property
    def standardise(self) -> bool:
        return self.layers[0].standardise


def select_adapters(adapters: Iterable[LanguageAdapter], languages: Sequence[str]) -> list[LanguageAdapter]:
    """The adapters of these languages, in this order."""
    held = {adapter.language: adapter for adapter in adapters}
    if missing := [language for language in languages if language not in held]:
        there = ", ".join(held) or "none"
        raise ZgulError(f"There is no language adapter for {', '.join(missing)}, only for: {there}.")
    return [held[language] for language in languages]
