"""SFT-En and SFT-M: standard fine-tuning of the whole encoder, on English or on all sources."""

from dataclasses import dataclass

from zgul.methods.base import Method, Parts
from zgul.methods.model import Model


@dataclass(frozen=True)
class SFT(Method):
    needs_bank: bool = False

    def build(self, parts: Parts) -> Model:
        parts.encoder.requires_grad_(True)
        return Model(parts.encoder, len(parts.labels), dropout=parts.options.dropout)


METHODS = [SFT("sft-en", "SFT-En", english_only=True), SFT("sft-m", "SFT-M")]
