"""Bytes of a response looked at as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def unaligned_view(body: memoryview, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A view that reads a `dtype` at every byte of `body`: indexed by offsets it gathers fields and copies nothing else."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(shape=(max(len(body) - size + 1, 0),), dtype=dtype, buffer=body, strides=(1,))
