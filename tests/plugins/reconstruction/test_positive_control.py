"""No defense is judged where the attack on the undefended model comes no closer than the mean image does."""

from pathlib import Path

import numpy as np
import pytest
from tests.plugins.reconstruction.test_tables import PLAIN, PRUNED, PSNR, Results

from imharness.results.query import ResultQuery
from imharness_reconstruction.tables import report

NAMES = [f"i{n:02d}" for n in range(16)]
HIDING = "x/hiding"


def spread(seed: int) -> np.ndarray:
    """Return numbers for the images, with mean 0 and a deviation of about 1 dB."""
    numbers = np.random.default_rng(seed).normal(size=len(NAMES))
    return numbers - numbers.mean()


def reached(results: Results, defense: str, mean: float, converged: bool = True) -> None:
    """Store reconstructions with this mean PSNR in dB, of an attack that converged for all images or for none."""
    score = np.float32(mean + spread(len(defense)))
    rows = {"name": NAMES, "score": score, "closeness": [1] * len(NAMES)}
    results.add("leakage", rows, defense=defense, attack="x/a", metric=PSNR)
    facts = {"source": NAMES, "state": ["as initialised"] * len(NAMES), "converged": [converged] * len(NAMES)}
    results.add("reconstruct", {"name": NAMES, **facts}, defense=defense, attack="x/a")


def ranking(folder: Path, plain: float, guess: float | None, converged: bool = True):
    """Return the ranking if the undefended model has a PSNR of `plain` and the mean image one of `guess`, in dB."""
    results = Results(folder)
    reached(results, PLAIN, plain, converged)
    reached(results, PRUNED, 9)
    reached(results, HIDING, 5)
    if guess is not None:
        results.add("guess", {"name": NAMES, "score": np.float32(guess + spread(0))}, metric=PSNR)
    return report(ResultQuery(results.store, results.records)).rankings[0]


@pytest.mark.parametrize(
    ("plain", "guess", "claim"),
    [
        (10.9, 17.3, "The attack rebuilds nothing without a defense (10.9 dB, the mean image has 17.3 dB): "),
        (17.3, 17.3, "The attack rebuilds nothing without a defense (17.3 dB, the mean image has 17.3 dB): "),
        (17.4, 17.3, "Nothing is shown to be rebuilt without a defense (17.4 dB, mean image 17.3 dB): "),
    ],
)
def test_where_the_mean_image_is_as_close_nobody_wins(tmp_path: Path, plain: float, guess: float, claim: str) -> None:
    verdict = ranking(tmp_path, plain, guess)
    assert verdict.claim.startswith(claim)
    assert verdict.claim.endswith(": no defense can be judged.")
    assert len(verdict.claim.split()) <= 20
    assert (verdict.outcome, verdict.winner, verdict.first, verdict.may_be_best) == ("nobody", "", "", ())
    assert not [finding for finding in verdict.findings if finding.tier == "shown"]
    assert not any(position.eligible for position in verdict.places.values())


@pytest.mark.parametrize("guess", [13.2, None])
def test_where_the_attack_rebuilds_more_defenses_are_judged(tmp_path: Path, guess: float | None) -> None:
    verdict = ranking(tmp_path, 21.6, guess)
    assert verdict.winner == f"x/m + {HIDING}"
    assert "5.0 dB" in verdict.claim
    assert not any(position.flags for position in verdict.places.values())


def test_an_attack_that_never_converges_without_a_defense_judges_none(tmp_path: Path) -> None:
    verdict = ranking(tmp_path, 21.6, 13.2, converged=False)
    assert verdict.claim == "No attack converges without a defense: no defense can be judged."
    assert verdict.winner == ""
