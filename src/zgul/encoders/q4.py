"""Four-bit weights that travel: Q4_0 blocks in a safetensors file.

A block is 32 neighbouring values: an fp16 scale and 32 whole numbers from -8 to 7, kept plus 8 as nibbles:
the low nibbles of 16 bytes are the first 16 values, the high nibbles the rest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK = 32


def dequantise(scales: npt.NDArray[np.float16], nibbles: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """scales [n], nibbles [n, 16] -> values [n, 32], exact in fp32."""
    values = np.empty((len(scales), BLOCK), np.float32)
    values[:, : BLOCK // 2] = nibbles & 15
    values[:, BLOCK // 2 :] = nibbles >> 4
    values -= 8
    values *= scales.astype(np.float32)[:, None]
    return values
