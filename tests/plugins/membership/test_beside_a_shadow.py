"""A shadow model, or references, show that flags are mixed up, and that one side has another temperature."""

from pathlib import Path

import numpy as np
import pytest
from tests.plugins.membership.test_gate import Rows, model, verdicts
from tests.plugins.membership.test_two_ways import on_side

from imharness_membership.audit_inputs import Outputs
from imharness_membership.audit_references import KnownReferences
from imharness_membership.reference_doubts import doubts_of_references
from imharness_membership.shadow_doubts import doubts_of_flags, doubts_of_scales

Array = np.ndarray
SIZES = (100, 400, 1500)


def outputs_of(answers: Rows) -> Outputs:
    return Outputs(answers["probabilities"], answers["labels"], answers["member"])


def warmed(shares: Array, temperature: float) -> Array:
    """Return what a softmax with this temperature would have given."""
    powers = shares ** (1 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def odds(answers: Rows) -> Array:
    true = answers["probabilities"][np.arange(len(answers["labels"])), answers["labels"]]
    return np.asarray(np.log(true) - np.log1p(-true))


def mixed_up(member: Array, share: float, rng: np.random.Generator) -> Array:
    """Return flags of which this share is reversed."""
    return np.where(rng.random(len(member)) < share, ~member, member)


@pytest.mark.parametrize("inside", [True, False])
def test_another_temperature_on_one_side_is_named(inside: bool, tmp_path: Path) -> None:
    """A temperature of 2 on non-members alone gave an accuracy of .68 to a model that gives next to nothing away."""
    target = on_side(model(1, leak=0.2), inside, lambda shares: warmed(shares, 2.0))
    _, reasons = verdicts(target, model(2, leak=0.2), tmp_path)
    assert f"as far on {'non-' * inside}members as on {'non-' * (not inside)}members" in reasons
    assert "another temperature on one side" in reasons


@pytest.mark.parametrize("rows", SIZES)
def test_models_of_one_training_are_not_doubted_and_temperatures_are(rows: int) -> None:
    for seed in range(30):
        leak, sure = (0.0, 1.0, 3.0)[seed % 3], (1.0, 4.0)[seed % 2]
        target, shadow = (model(1000 * seed + i, rows, leak, sure=sure) for i in range(2))
        outputs = outputs_of(shadow)
        assert not list(doubts_of_scales(outputs_of(target), outputs))
        assert not list(doubts_of_flags(odds(target), target["member"], odds(shadow), shadow["member"]))
        for everywhere in (0.5, 2.0):  # one temperature for all rows is no mistake
            released = target | {"probabilities": warmed(target["probabilities"], everywhere)}
            assert not list(doubts_of_scales(outputs_of(released), outputs))
        changed = on_side(target, seed % 2 == 0, lambda shares: warmed(shares, 2.0))
        assert list(doubts_of_scales(outputs_of(changed), outputs))


def test_rows_without_a_scale_say_nothing() -> None:
    target, shadow = (model(seed) for seed in (1, 2))
    certain = target | {"probabilities": np.eye(10)[target["labels"]]}
    assert not list(doubts_of_scales(outputs_of(certain), outputs_of(shadow)))
    three, four = ([model(seed, classes=classes) for seed in (1, 2)] for classes in (3, 4))
    for pair, named in ((three, 0), (four, 1)):
        changed = on_side(pair[0], True, lambda shares: warmed(shares, 3.0))
        assert len(list(doubts_of_scales(outputs_of(changed), outputs_of(pair[1])))) == named


def test_flags_of_which_a_third_is_wrong_are_named_beside_a_shadow(tmp_path: Path) -> None:
    target, shadow = (model(seed, leak=1.5, sure=4.0) for seed in (1, 2))
    target |= {"member": mixed_up(target["member"], 0.3, np.random.default_rng(0))}
    _, reasons = verdicts(target, shadow, tmp_path)
    assert "Are some of these rows flagged wrongly?" in reasons
    easier = model(3, leak=1.5, sure=2.5)  # less sure on both sides: another training, not wrong flags
    assert not list(doubts_of_flags(odds(easier), easier["member"], odds(shadow), shadow["member"]))


def test_flags_of_which_a_third_is_wrong_are_named_beside_references() -> None:
    named = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, count = SIZES[seed % 3], (4, 16)[seed % 2]
        member = rng.random((count + 1, 2 * rows)) < 0.5
        leaks = 1.5 * (1 + 0.1 * rng.normal(size=(count + 1, 1)))
        each = rng.normal(0, 2, 2 * rows) + leaks * member + rng.normal(size=member.shape)
        references = KnownReferences(each[1:].astype(np.float32), member[1:])
        assert not list(doubts_of_references(each[0], member[0], references))
        wrong = list(doubts_of_references(each[0], mixed_up(member[0], 0.3, rng), references))
        assert all("Are some of the target's rows flagged wrongly?" in line for line in wrong)
        named += bool(wrong) if (rows, count) == (1500, 16) else 0
    assert named == 10  # of 60 seeds, ten have 1500 rows and 16 references: every one is named
