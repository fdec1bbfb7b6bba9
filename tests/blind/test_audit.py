"""What the audit of gradients reports of cheats that only attacks expose; honest defenses are not flagged."""

from pathlib import Path

import pytest
import torch
from tests.blind import gradient_cheats as honest_in_trials
from tests.blind import iqa_cheats as cheats
from tests.blind import reconstruction_cheats
from tests.blind.hidden_grades import WrittenGrade
from tests.blind.leaderboards import STRANGERS
from tests.blind.perceptual_cheats import Ripple
from tests.submissions.conftest import PROFILE

from imharness.components.provenance import Registered
from imharness.components.registry import installed
from imharness.contracts.gradient_defense import GradientDefense
from imharness.contracts.purification import Purification
from imharness.planning.profiles import load_profile
from imharness_submissions.gradient_audit import TrialAttacks, examine
from imharness_submissions.metric_audit import examine_metric
from imharness_submissions.sharing_audit import examine_sharing

MISLEADS = "misleading gradients"
CPU = torch.device("cpu")
TRIED = "harness/severity-ladder[severities=[2,4],size=48]"
"""The images of the profile's trials."""
CASES = (
    (cheats.LowpassGradient(), MISLEADS),
    (cheats.StandIn(), MISLEADS),
    (cheats.Watermark(), "where an attack along it has led (cosine"),
    (honest_in_trials.ByIncoming(), "another one for the gradient of a metric than for random directions"),
    (honest_in_trials.OnTheWay(), "on the way of an attack along it"),
    (honest_in_trials.TakesAttacksBack(public=TRIED), "take an attack's change back"),
    (WrittenGrade(), "something that the metric reads has no gradient"),
    (cheats.InverseContrast(), "a look-up"),
    (cheats.OneUlp(), "a look-up"),
    (cheats.Flat(), "a look-up"),
    (cheats.LookUp(near=1, left=0.02), "a look-up"),
    (cheats.LookUp(near=1, left=0.12), "a look-up"),
    (cheats.StoredDetail(public=TRIED), "show detail that did not come with the image"),
    (cheats.StoredDetail(public=TRIED, mirrored=True), "show detail that did not come with the image"),
)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> TrialAttacks:
    path = tmp_path_factory.mktemp("profile") / "tiny.toml"
    path.write_text(PROFILE)
    registry = installed().joined([Registered(cheats.Flat(), "strangers", STRANGERS)])
    return TrialAttacks(registry, load_profile(str(path)), CPU)


@pytest.mark.parametrize(("cheat", "named"), CASES, ids=lambda value: getattr(value, "label", ""))
def test_the_audit_names_it(cheat: Purification, named: str, trial: TrialAttacks) -> None:
    assert named in " ".join(examine(cheat, trial, 0).flags)


@pytest.mark.parametrize(
    "name", ["flip", "gaussian-blur", "jpeg", "color-quantization", "random-noise", "diffjpeg[quality=10]"]
)
def test_it_names_no_honest_defense(name: str, trial: TrialAttacks) -> None:
    assert examine(installed().one("defense", f"harness/{name}"), trial, 0).flags == ()


@pytest.mark.parametrize(
    ("cheat", "caught"),
    [
        (reconstruction_cheats.KnowsTheSuite(), True),
        (reconstruction_cheats.KnowsTheSuite(by="rank"), True),
        *(
            (installed().one("defense", f"harness/{name}"), False)
            for name in ("laplacian-gradient", "gradient-pruning")
        ),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_who_knows_the_suite_is_named_on_gradients_of_the_profile(cheat: GradientDefense, caught: bool) -> None:
    """Both cheats pass the suite, whose gradients are not those of an image and have other names and shapes."""
    audit = examine_sharing(cheat, installed(), load_profile("embedded"), CPU)
    assert audit is not None
    assert (audit.gains, bool(audit.flags)) == ((), caught), audit.flags


def test_an_honest_distance_is_tried_where_references_are_images_of_the_data_set(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    for data, is_tried in (("harness/pictures[size=48]", False), ("harness/crossed-pairs[size=48]", True)):
        path.write_text(PROFILE.replace(TRIED, data))
        audit = examine_metric(installed().one("metric", "harness/l2"), installed(), load_profile(str(path)), CPU)
        assert (audit is not None) == is_tried
        assert audit is None or audit.flags == ()


def test_a_ripple_of_a_few_levels_in_a_distance_is_named(tmp_path: Path) -> None:
    """The gradient of `Ripple` is right for tiny changes, and wrong for those of several levels, which attacks make."""
    path = tmp_path / "tiny.toml"
    path.write_text(PROFILE.replace(TRIED, "harness/crossed-pairs[size=48]"))
    audit = examine_metric(Ripple(), installed(), load_profile(str(path)), CPU)
    assert audit is not None
    (flag,) = audit.flags
    assert "along random changes of 2 and 4 levels" in flag
