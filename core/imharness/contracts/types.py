"""The tensors that cross a contract."""

from __future__ import annotations

from typing import TypeAlias

import torch

Images: TypeAlias = torch.Tensor
"""float32 ``(N, 3, H, W)``, RGB, in [0, 1]."""

Scores: TypeAlias = torch.Tensor
"""float32 ``(N,)``, one number per image or row."""

Gradients: TypeAlias = dict[str, torch.Tensor]
"""Parameter name to ``(N, *parameter.shape)``: one gradient per image."""
