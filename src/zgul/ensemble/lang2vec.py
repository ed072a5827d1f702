"""Lang2Vec, the paper's language-based (global) weights: ``α_L[t] = softmax_n(l_lang[t]ᵀ W_L l_n)``.

``l = ReLU(W lf + b)`` turns the URIEL features ``lf`` of a language into a short vector. It is shared by all layers;
W_L is each layer's own. ``additive`` is the form of the authors' release for its Germanic model: ``vᵀ tanh(W_1 l_lang
+ W_2 l_n)``.
"""

import torch
from torch import Tensor, nn

FORMS = ("bilinear", "additive")
STARTS = ("likeness", "random")
SIZE = 32  # of a language vector
SHARPNESS = 4.0  # before training, a source that agrees in every feature scores this much above one that agrees in half


class LanguageVectors(nn.Module):
    """Turns URIEL features into language vectors ``l``. It stores the features of the bank's languages."""

    bank_features: Tensor  # [N, F]

    def __init__(self, bank_features: Tensor, start: str = "likeness") -> None:
        super().__init__()
        self.register_buffer("bank_features", bank_features.float(), persistent=False)
        self.project = nn.Linear(bank_features.shape[1], SIZE)
        if start == "likeness":
            self._start_as_likeness()

    @torch.no_grad()
    def _start_as_likeness(self) -> None:
        """Make ``l_aᵀ l_n``, before training, the share of features in which language a agrees with source n.

        Write features as signs g = ±1, and let V be an orthonormal basis whose first rows span the g of the sources.
        Then ``(V g_a) · (V g_n) = g_a · g_n`` for any language a and any source n. ReLU would cut off half of ``V
        g``, so each row is used twice, as ``c + v·g`` and ``c - v·g``, with c so large that neither is negative. That
        gives ``l_aᵀ l_n = 2 g_a · g_n + constant``, and a softmax over n ignores the constant. A random projection of
        this size gets the order of the sources wrong for every third language.
        """
        count, half = self.bank_features.shape[1], self.project.out_features // 2
        signs = 2 * self.bank_features - 1  # [N, F]
        filled = torch.cat([signs, torch.randn(count, count, device=signs.device)])
        rows = torch.linalg.qr(filled.t()).Q.t()[:half]  # [up to half, F]
        scale = (SHARPNESS / (2 * count)) ** 0.5
        weight = torch.zeros_like(self.project.weight)
        weight[: len(rows)], weight[half : half + len(rows)] = scale * rows, -scale * rows
        self.project.weight.copy_(2 * weight)  # for features 0 and 1 instead of signs
        self.project.bias.copy_(scale * count**0.5 - weight.sum(dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Map features [M, F] to language vectors [M, size]."""
        return torch.relu(self.project(features))


class Lang2Vec(nn.Module):
    """The scores of one layer, before the softmax, of each language for each source."""

    def __init__(self, size: int, width: int, form: str = "bilinear", start: str = "likeness") -> None:
        super().__init__()
        self.form = form
        if form == "bilinear":
            # W_L starts as the identity: before training, the scores are the likeness of the languages
            self.bilinear = nn.Parameter(torch.eye(size))
            if start == "random":
                nn.init.normal_(self.bilinear, std=0.02)
        else:
            self.query, self.key = nn.Linear(size, width), nn.Linear(size, width)
            self.value = nn.Linear(width, 1)

    def forward(self, languages: Tensor, sources: Tensor) -> Tensor:
        """Map language vectors [M, size] and those of the sources [N, size] to scores [M, N]."""
        if self.form == "bilinear":
            return languages @ self.bilinear @ sources.t()
        pairs = torch.tanh(self.query(languages)[:, None] + self.key(sources))  # [M, N, d]
        scores: Tensor = self.value(pairs).squeeze(-1)
        return scores
