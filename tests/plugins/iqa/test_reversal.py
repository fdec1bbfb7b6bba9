"""Attacks that reverse the order of pairs: by gradients they reach the largest possible share where it is known."""

import pytest
import torch

from imharness.contracts.randomness import ImageRng, generator
from imharness.images import BaseAttack, Images, Scores
from imharness.running.target import MetricTarget
from imharness_iqa.attacks.ifgsm import Ifgsm
from imharness_iqa.attacks.reversal import Reversal, ReversalSquare, share_below
from imharness_iqa.attacks.square import Square
from imharness_iqa.tables.order import Others

CPU, SIDE = torch.device("cpu"), 8
LEVELS = {
    "even": torch.arange(70, 190, 3) / 255,
    "dense below": torch.cat([torch.arange(60, 90), torch.arange(120, 200, 8)]) / 255,
    "dense above": torch.cat([torch.arange(60, 140, 8), torch.arange(160, 190)]) / 255,
}
"""Brightness of uniformly grey images; each counts as a photograph of its own."""
RADIUS = 46 / 255


def brightness(images: Images) -> Scores:
    return images.flatten(1).mean(dim=1)


def greys(levels: torch.Tensor) -> Images:
    return levels.view(-1, 1, 1, 1).expand(-1, 3, SIDE, SIDE).clone()


def attacked(attack: BaseAttack, images: Images, training_images: Images, score=brightness) -> Scores:
    """Return the scores of attacked images; the attack is fitted on other images."""
    white = attack.info.access == "white_box"
    fitted = ()
    if isinstance(attack, Reversal | ReversalSquare):
        training = MetricTarget(score, (0, 1), images=1, differentiable=white, training=True)
        fitted = (attack.fit(training_images, training, generator(0), lambda done, total: None),)
    window = MetricTarget(score, (0, 1), images=len(images), differentiable=white, budget=attack.budget().queries)
    changed = attack.build(CPU, *fitted)(images, window, ImageRng(range(len(images))))
    assert float((changed - images).abs().max()) <= RADIUS + 1e-6
    return score(changed)


def reversed_share(start: Scores, end: Scores) -> float:
    """Return the share of pairs that attacks on one image each reverse, as the ranking counts it."""
    before, after, photographs = start.double().numpy(), end.double().numpy(), torch.arange(len(start)).numpy()
    return float(Others.of(before, photographs).passed(before, after, photographs).mean())


def most(levels: torch.Tensor) -> float:
    """Return the share that the better of the two directions reverses."""
    moved = [torch.stack([(levels > c) & (levels <= c + RADIUS + 1e-6) for c in levels]).sum(dim=1)]
    moved.append(torch.stack([(levels < c) & (levels >= c - RADIUS - 1e-6) for c in levels]).sum(dim=1))
    return float(torch.maximum(*moved).double().mean() / (len(levels) - 1))


@pytest.mark.parametrize("name", LEVELS)
def test_where_a_step_moves_the_score_by_what_it_says_most_pairs_are_reversed(name: str) -> None:
    images = greys(LEVELS[name])
    start, directional = brightness(images), Ifgsm(alpha=RADIUS / 8, radius=RADIUS, iterations=8)
    reached = reversed_share(start, attacked(Reversal(radius=RADIUS, steps=8), images, images))
    raised = reversed_share(start, attacked(directional, images, images))
    assert reached == pytest.approx(most(LEVELS[name]), abs=0.01)
    assert reached > raised + 0.05


@pytest.mark.parametrize("name", ["even", "dense below"])
def test_queries_reverse_more_pairs_than_those_of_an_attack_that_raises_scores(name: str) -> None:
    images, budget = greys(LEVELS[name]), {"eps": RADIUS, "queries": 100, "p": 0.5}
    start = brightness(images)
    reached = reversed_share(start, attacked(ReversalSquare(**budget), images, images))
    raised = reversed_share(start, attacked(Square(**budget), images, images))
    assert reached > 1.1 * raised


@pytest.mark.parametrize("attack", [Reversal(radius=40 / 255), ReversalSquare(eps=40 / 255, queries=40)])
def test_a_defense_that_takes_the_change_away_leaves_no_pair_to_reverse(attack: BaseAttack) -> None:
    """Three groups of greys lie 100 levels apart. The defense keeps steps of 100, which no change of 40 crosses."""
    images = greys(torch.cat([centre - 6 + torch.arange(13) for centre in (26, 126, 226)]) / 255)

    def in_steps(x: Images) -> Scores:
        levels = brightness(x)
        return levels + (((levels * 255 - 26) / 100).round() - levels).detach()

    for score, whether in ((brightness, True), (in_steps, False)):
        start = score(images)
        assert (reversed_share(start, attacked(attack, images, images, score)) > 0) == whether
    assert in_steps(images).unique().tolist() == [0, 1, 2]


def test_each_image_is_attacked_by_itself() -> None:
    images = greys(LEVELS["dense below"])
    for attack in (Reversal(radius=RADIUS), ReversalSquare(eps=RADIUS, queries=40)):
        together = attacked(attack, images, images)
        torch.testing.assert_close(together[:3], attacked(attack, images[:3], images))


def test_the_share_of_scores_below_rises_also_where_none_is_left() -> None:
    share = share_below(torch.tensor([1.0, 2.0, 2.0, 4.0]))
    at = torch.tensor([-50.0, 0.0, 1.5, 3.0, 5.0, 60.0])
    torch.testing.assert_close(share(at)[1:5], torch.tensor([0.0, 0.25, 0.75, 1.0]), atol=0.15, rtol=0)
    assert (share(at).diff() > 0).all()
    assert share_below(torch.ones(3))(torch.tensor([0.0, 1.0, 2.0])).diff().min() > 0
