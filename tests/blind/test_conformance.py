"""Cheats that the conformance suite reports (`CASES`, with its words), and those that it leaves (`LEFT`)."""

import pytest
import torch
from tests.blind import iqa_cheats as iqa
from tests.blind import iqa_noises as noises
from tests.blind import membership_cheats as membership
from tests.blind import perceptual_cheats as perceptual
from tests.blind import reconstruction_cheats as reconstruction
from tests.blind.channel_shuffles import Channels

from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.testing import trials

NO_SLOPE, SLOPES = "no gradient reaches the images", "finite differences"
CASES: list[tuple[Component, str]] = [
    (iqa.InverseDecode(), "more than move pixels"),
    (iqa.InverseContrast(), "more than move pixels"),
    (iqa.InverseFilter(), "comes back in parts"),
    (Channels(inverted="grey"), "comes back in parts"),
    (Channels(inverted="by-place"), "comes back in parts"),
    (iqa.InverseMargin(), "25% of the pixels come back"),
    (iqa.InverseThumbnail(), "16 times"),
    (iqa.NoisyGradient(), SLOPES),
    (iqa.TinyGradient(), SLOPES),
    (iqa.HugeGradient(), SLOPES),
    (iqa.HookGradient(), SLOPES),
    (iqa.Steps(), NO_SLOPE),
    (iqa.Flat(), NO_SLOPE),
    (iqa.Denormal(), NO_SLOPE),
    (iqa.NotRandom(), "info says random"),
    (iqa.InPlace(), "changed in place"),
    (iqa.SizeByKey(), "Sizes of tensors must match"),
    (iqa.Detector(what="raise"), "no answer"),
    (iqa.Detector(what="memory"), "out of memory"),
    (iqa.Odd(how="double"), "expected float32"),
    (iqa.Odd(how="half"), "expected float32"),
    (iqa.StandIn(), "no defense is called"),
    (reconstruction.PoolSwap(), "another image of the pool stands in its place"),
    (reconstruction.Delay(), "another result alone"),
    (reconstruction.BatchMix(), "another result alone"),
    (reconstruction.SelectiveNoise(), "what trains the model is not what is protected"),
    (reconstruction.Sharing(), "what trains the model is not what is protected"),
    (reconstruction.Huge(factor=float("inf")), "NaN or infinite"),
    (membership.OddRelease(), "NaN or infinite"),
    (membership.OddRelease(how="small"), "divide them by their sum"),
    (membership.MemberLie(), "members are looked up"),
    (membership.Masquerade(), "members are looked up"),
    (membership.Masquerade(mixed=0.4, near=0.01), "members are looked up"),
    (membership.KnowsTheSuite(), "members are looked up"),
    (membership.KnowsTheSuite(by="surety"), "members are looked up"),
    (membership.OddEvaluator(), "when their order changed"),
    (membership.OddEvaluator(how="nan"), "NaN or infinite"),
    (membership.OddEvaluator(how="infinite"), "NaN or infinite"),
    (perceptual.Distance(), "a noisy copy is nearer"),
    (perceptual.Distance(how="ties"), "a noisy copy is nearer"),
    (perceptual.Distance(how="reference"), "a noisy copy is nearer"),
    (perceptual.Distance(how="negative"), "a noisy copy is nearer"),
    (perceptual.Distance(how="denormal"), "misleads attacks"),
    (perceptual.Distance(how="steps"), "misleads attacks"),
    (perceptual.SteppedMetric(), SLOPES),
    (noises.HashMirror(), "its own gradient misleads attacks"),
]
LEFT: list[Component] = [
    noises.HashDither(),
    noises.Seeded(),
    reconstruction.Permuted(),
    reconstruction.KnowsTheSuite(),
    reconstruction.KnowsTheSuite(by="rank"),
    membership.ModelTemperature(),
    membership.LowDigits(),
    perceptual.WideMetric(),
    perceptual.OddAttack(),
    perceptual.OddAttack(how="picture"),
    perceptual.Friend(),
    perceptual.Endless(),
]


@pytest.mark.parametrize(("cheat", "named"), CASES, ids=lambda value: getattr(value, "label", ""))
def test_the_suite_names_it(cheat: Component, named: str) -> None:
    # the checks on a simulated GPU and at the bounds of fields take most of the time and name none of these
    checks = [t for t in trials(cheat, 3) if not t.at_bound and "device" not in t.check]
    failed = [result.message for t in checks if (result := t.run()).status == "failed"]
    assert any(named in message for message in failed), failed


@pytest.mark.parametrize("cheat", LEFT, ids=lambda cheat: cheat.label)
def test_what_gains_nothing_or_decides_nothing_is_left_to_the_leaderboard(cheat: Component) -> None:
    """The suite reports what breaks a contract, and not what is merely useless."""
    checks = [t for t in trials(cheat, 3) if not t.at_bound and "device" not in t.check]
    assert [result.message for t in checks if (result := t.run()).status == "failed"] == []


@pytest.mark.parametrize(
    "name", ["harness/flip", "harness/crop", "harness/rotate[limit=50]", "acme/mirrors", "acme/channels"]
)
def test_what_moves_pixels_back_passes(name: str) -> None:
    ours = {"acme/mirrors": iqa.Mirrors, "acme/channels": Channels}
    honest = ours[name]() if name in ours else installed().one("defense", name)
    (check,) = (t for t in trials(honest, 3) if t.check.startswith("moves pixels back") and not t.at_bound)
    result = check.run()
    assert result.status == "passed", result.message


def test_private_images_that_are_moved_or_turned_round_are_still_private() -> None:
    """Such protections keep the contract, however little they protect."""
    for cheat in (reconstruction.ShiftImage(), reconstruction.MirrorImage(), reconstruction.NegativeImage()):
        (check,) = (t for t in trials(cheat, 3) if t.check == "protects the private image itself")
        assert check.run().status == "passed"


def test_noise_on_gradients_is_as_good_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defense that adds the same noise to all gradients, whatever their size, passes the check."""
    monkeypatch.setattr(reconstruction.Huge, "build", lambda self, device: _noise)
    (check,) = (t for t in trials(reconstruction.Huge(), 3) if t.check.startswith("protects gradients"))
    assert check.run().status == "passed"


def _noise(gradients: dict[str, torch.Tensor], rng: torch.Generator) -> dict[str, torch.Tensor]:
    return {name: g + 0.05 * rng.normal(*g.shape[1:]) for name, g in gradients.items()}
