"""Separable filters are the slow convolution, in value and in gradient."""

import pytest
import torch
import torch.nn.functional as F

from imharness.data import generator
from imharness_vision import filters
from imharness_vision.filters import filtered, gaussian_line


def test_a_filter_is_the_two_dimensional_convolution_with_its_gradient() -> None:
    images = torch.rand(2, 3, 17, 23, generator=generator(0), dtype=torch.float64, requires_grad=True)
    line = gaussian_line(7, 1.4)
    kernel = (line.double()[:, None] * line.double()[None])[None, None]
    slow = F.conv2d(images.flatten(0, 1)[:, None], kernel)[:, 0].unflatten(0, (2, 3))
    fast = filtered(images, line)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    weights = torch.rand(fast.shape, generator=generator(1), dtype=torch.float64)
    expected, gradient = (torch.autograd.grad((x * weights).sum(), images)[0] for x in (slow, fast))
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)


def test_where_there_is_no_opencv_two_convolutions_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images, line = torch.rand(1, 2, 12, 9, generator=generator(0)), gaussian_line(5, 1.0)
    torch.testing.assert_close(filters._convolved(images, line), filtered(images, line), rtol=0, atol=1e-6)
    monkeypatch.setattr(filters, "ADDRESSED", 0)
    torch.testing.assert_close(filters._convolved(images, line), filtered(images, line), rtol=0, atol=1e-6)
    monkeypatch.undo()
    torch.testing.assert_close(filtered(images.bfloat16(), line).float(), filtered(images, line), rtol=0, atol=0.02)
