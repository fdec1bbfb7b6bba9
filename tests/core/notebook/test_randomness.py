"""An own object that draws from a global random generator is named in a warning, and no other object is."""

import random
import sys
import warnings

import numpy as np
import pytest
import torch

import imharness as ih
from imharness.notebook.components import component_of
from imharness.notebook.randomness import say_who_drew

IMAGES = np.random.default_rng(0).random((3, 3, 8, 8))
LOCAL = torch.Generator()


@pytest.mark.parametrize(
    ("draw", "whose"),
    [
        (lambda: torch.rand(()), "torch"),
        (np.random.rand, "numpy"),
        (random.random, "Python"),
        (lambda: torch.rand(()) + np.random.rand(), "torch and numpy"),
    ],
)
def test_a_draw_from_each_global_generator_is_said_in_one_line(draw, whose: str) -> None:
    metric = ih.metric(
        lambda x: x.mean(dim=(1, 2, 3)) + 0 * draw(), bounds=(0, 1), higher_means="better_quality", name="m"
    )
    with pytest.warns(UserWarning, match=f"^local/m draws from the global randomness of {whose}, ") as caught:
        ih.score(metric, IMAGES)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_draws_from_a_generator_of_ones_own_are_nobodys_business() -> None:
    metric = ih.metric(
        lambda x: (
            0 * torch.rand(len(x), generator=LOCAL).to(x.device)
            + x.mean(dim=(1, 2, 3)) * np.random.default_rng(1).random()
        ),
        bounds=(0, 1),
        higher_means="better_quality",
    )
    with warnings.catch_warnings(action="error"):
        ih.score(metric, IMAGES)


def test_what_a_metric_draws_is_not_blamed_on_the_attack_that_asks_it() -> None:
    device = torch.device("cpu")
    noisy = ih.metric(
        lambda x: x.mean(dim=(1, 2, 3)) + torch.rand(1), bounds=(0, 1), higher_means="better_quality", name="noisy"
    )
    asks = ih.attack(
        lambda x, target: x + 0 * target(x).sum(), access="black_box", norm="linf", radius=0.1, name="asks"
    )
    target = component_of(noisy, "harness/iqa", "").component.build(device)
    asking = component_of(asks, "harness/iqa", "").component.build(device)
    asking(torch.zeros(1, 3, 4, 4), target)
    with pytest.warns(UserWarning, match="local/noisy draws"):
        assert say_who_drew() == ["local/noisy"]


def test_what_drew_is_computed_again_and_said_again(tmp_path) -> None:
    drawn = list[int]()

    def noisy(images: torch.Tensor) -> torch.Tensor:
        drawn.append(len(images))
        return (images + 0.01 * torch.rand_like(images)).clamp(0, 1)

    defense = ih.defense(noisy, differentiable=True, cache_key="1")
    facts = {"against": ["none", "ifgsm"], "dataset": IMAGES[:1], "store": tmp_path, "progress": False}
    for another_process in (False, False, True):  # a new process does not know yet which objects draw
        if another_process:
            sys.modules["imharness.notebook.evaluate"]._drawing.clear()
        drawn.clear()
        with pytest.warns(UserWarning, match=r"local/noisy draws .* imharness.defense\(\.\.\., random=True\)"):
            ih.evaluate(defense, **facts)
        assert drawn
