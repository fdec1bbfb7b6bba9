"""The conformance suite finds what is wrong: one broken component for each thing that can be, and honest controls."""

import importlib
import json
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import Field

from imharness.components.registry import installed
from imharness.errors import ContractError
from imharness.gradients import GradientDefense, ReconstructionAttack
from imharness.images import (
    Attack,
    AttackInfo,
    Budget,
    DefenseInfo,
    FullReferenceMetric,
    ImageRng,
    Images,
    Info,
    MetricInfo,
    NoReferenceMetric,
    Purification,
)
from imharness.membership import MembershipDefenseInfo, MembershipEvaluator, MembershipRelease
from imharness.testing import check_component, importing, trials
from imharness.testing.audit import undisturbed
from imharness.testing.conformance import BARE, Trial
from imharness.testing.importing import check_imports

Purify = Callable[[Images, ImageRng], Images]


def purification(purify: Purify, **facts) -> Purification:
    class Made(Purification):
        """A purification made for a test."""

        info = DefenseInfo(id="acme/made", version="1", **({"differentiable": True} | facts))

        def build(self, device: torch.device) -> Purify:
            return purify

    return Made()


def metric(score: Callable[[Images], torch.Tensor]) -> NoReferenceMetric:
    class Made(NoReferenceMetric):
        """A metric made for a test."""

        info = MetricInfo(id="acme/made", version="1", higher_means="better_quality", bounds=(0, 1))

        def build(self, device: torch.device) -> Callable[[Images], torch.Tensor]:
            return score

    return Made()


def failures(component) -> dict[str, str]:
    return {o.check: o.message for o in check_component(component, seed=1) if o.status == "failed"}


class Lying(torch.autograd.Function):
    """Half of the contrast, with a gradient that points the other way."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        return x / 2 + 0.25

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


def remembering() -> Purify:
    seen: list[Images] = []

    def purify(images: Images, rng: ImageRng) -> Images:
        seen.append(images)
        return (images + 0.01 * len(seen)).clamp(0, 1)

    return purify


def calling_home(images: Images, rng: ImageRng) -> Images:
    with socket.socket() as opened:
        opened.settimeout(0.1)
        opened.connect_ex(("127.0.0.1", 9))
    return images


def writing(images: Images, rng: ImageRng) -> Images:
    with (Path.home() / ".conformance").open("w") as file:
        file.write("x")
    (Path.home() / ".conformance").unlink()
    return images


def smoother_twin(images: Images, rng: ImageRng) -> Images:
    """Return for each image the smoothest one of those that look like it: the clean image, if the batch has it."""
    rough = (images[..., 1:] - images[..., :-1]).abs().mean(dim=(1, 2, 3))
    near = torch.cdist(images.flatten(1), images.flatten(1)) < 0.05 * images[0].numel() ** 0.5
    return images[torch.where(near, rough[None], torch.inf).argmin(dim=1)]


BATCH = "treats each row alone, whatever the batch and its order"
QUIET = "uses no global randomness, network, process or file"
HONEST = "is differentiable if and only if it says so"
CONTRACT = "gives what its contract says"


def test_honest_components_are_not_flagged() -> None:
    assert failures(purification(lambda x, rng: x.clamp(0, 1))) == {}
    assert failures(purification(lambda x, rng: (x * 255).round() / 255, differentiable=False)) == {}
    noisy = purification(lambda x, rng: (x + 0.1 * rng.normal(*x.shape[1:])).clamp(0, 1), random=True)
    assert failures(noisy) == {}
    assert failures(metric(lambda x: x.flatten(1).mean(dim=1))) == {}


@pytest.mark.parametrize(
    ("component", "check", "text"),
    [
        (purification(lambda x, rng: x[:, :2]), CONTRACT, "expected 3 images"),
        (purification(lambda x, rng: 2 * x), CONTRACT, "in [0, 1]"),
        (purification(lambda x, rng: x.double()), CONTRACT, "float32"),
        (purification(lambda x, rng: x - x.mean(dim=0) + 0.5), BATCH, "alone"),
        (purification(lambda x, rng: x.clamp(0, 1) if len(x) > 1 else x / 2), BATCH, "alone"),
        (purification(lambda x, rng: x.mul_(0.5)), "leaves its inputs as they are", "in place"),
        (purification(remembering()), "gives the same again", "other results"),
        (purification(lambda x, rng: (x + 0.1 * torch.rand(1)).clamp(0, 1)), QUIET, "global random state of torch"),
        (purification(calling_home), QUIET, "socket.connect"),
        (purification(writing), QUIET, "writing"),
        (purification(lambda x, rng: Lying.apply(x)), HONEST, "misleads attacks"),
        (purification(lambda x, rng: (x * 255).round() / 255), HONEST, "no gradient reaches"),
        (purification(lambda x, rng: x, random=True), "is random if and only if it says so", "the same"),
        (purification(lambda x, rng: 1 / 0), CONTRACT, "raised ZeroDivisionError"),
        (metric(lambda x: x.mean()), CONTRACT, "shape (3,)"),
        (metric(lambda x: x.flatten(1).mean(dim=1) / 0), CONTRACT, "NaN or infinite"),
        (metric(lambda x: x.flatten(1).mean(dim=1) - x.mean()), BATCH, "alone"),
        (purification(smoother_twin), BATCH, "near copy"),
    ],
)
def test_what_is_wrong_is_found(component, check: str, text: str) -> None:
    problems = failures(component)
    assert check in problems, problems
    assert text in problems[check]


@pytest.mark.parametrize(
    ("draw", "name"), [(np.random.rand, "numpy"), (random.random, "Python"), (lambda: torch.rand(()), "torch")]
)
def test_a_single_draw_from_a_global_generator_is_noticed(draw: Callable[[], object], name: str) -> None:
    """Generators draw hundreds of numbers in advance, so that most draws move only a counter in their state."""
    draw()
    with pytest.raises(ContractError, match=f"global random state of {name} changed"), undisturbed():
        draw()


def _contrast(images: Images) -> torch.Tensor:
    return images.flatten(1).var(dim=1).sqrt()


def _stretched(images: Images, rng: ImageRng) -> Images:
    low, high = (x.view(-1, 1, 1, 1) for x in (images.flatten(1).amin(dim=1), images.flatten(1).amax(dim=1)))
    return (images - low) / (high - low)


class Likeness(FullReferenceMetric):
    """The cosine of two images."""

    info = MetricInfo(id="acme/likeness", version="1", higher_means="better_quality", bounds=(0, 1))

    def build(self, device: torch.device):
        return lambda images, reference: (
            (images * reference).flatten(1).sum(dim=1)
            / (images.flatten(1).norm(dim=1) * reference.flatten(1).norm(dim=1))
        )


class Brighter(Attack):
    """Brightens pixels in proportion: the brightest one by 4 levels of 255."""

    info = AttackInfo(id="acme/brighter", version="1", access="black_box", norm="linf", strengths={"weak": {}})

    def budget(self) -> Budget:
        return Budget(radius=4 / 255, queries=10)

    def build(self, device: torch.device):
        def perturb(images, target, rng):
            brightest = images.flatten(1).amax(dim=1).view(-1, 1, 1, 1)
            return (images + 4 / 255 * images / brightest).clamp(0, 1)

        return perturb


class Sharpened(MembershipRelease):
    """Releases the odds of each class, divided by their sum."""

    info = MembershipDefenseInfo(id="acme/sharpened", version="1")

    def build(self, device: torch.device):
        def release(outputs, defender, rng):
            odds = outputs / (1 - outputs)
            return odds / odds.sum(dim=1, keepdim=True)

        return release


class Confidence(MembershipEvaluator):
    """Scores a row by the log odds of its label."""

    info = Info(id="acme/confidence", version="1")

    def build(self, device: torch.device):
        return lambda query: query.target_outputs.gather(1, query.target_labels[:, None])[:, 0].logit()


class Scaled(GradientDefense):
    """Divides the gradient of each image by its norm, layer by layer."""

    info = Info(id="acme/scaled", version="1")

    def build(self, device: torch.device):
        return lambda gradients, rng: {
            name: g / g.flatten(1).norm(dim=1).view(-1, *[1] * (g.ndim - 1)) for name, g in gradients.items()
        }


class Direct(ReconstructionAttack):
    """Shows the gradient of the first layer as an image, divided by its largest value."""

    info = Info(id="acme/direct", version="1")

    def build(self, device: torch.device):
        def rebuild(gradients, model, shape, rng, progress):
            rows = gradients["1.weight"].mean(dim=1)
            return (rows.abs() / rows.abs().amax(dim=1, keepdim=True)).view(-1, *shape)

        return rebuild


@pytest.mark.parametrize(
    ("component", "text"),
    [
        (purification(_stretched, differentiable=False), "for a black image: acme/made: 27648 of"),
        (
            metric(lambda x: (x[:, 0].flatten(1).mean(dim=1) / x.flatten(1).mean(dim=1)).clamp(0, 1)),
            "for a black image",
        ),
        (metric(_contrast), "for a black image: 27648 of 27648 values of the gradient are NaN"),
        (Likeness(), "for a black image"),
        (Brighter(), "for a black image"),
        (Sharpened(), "for outputs that are sure"),
        (Confidence(), "for outputs that are sure"),
        (Scaled(), "for gradients of zero"),
        (Direct(), "for a black image"),
    ],
    ids=lambda value: getattr(value, "label", None),
)
def test_what_fails_where_little_is_shown_is_named(component, text: str) -> None:
    """The component passes the check of its contract: usual images have contrast, and usual outputs are never sure."""
    passed, failed = (t.run() for t in trials(component, 1) if t.check in (CONTRACT, BARE))
    assert (passed.status, failed.status) == ("passed", "failed"), (passed, failed)
    assert text in failed.message


class Greedy(Attack):
    """Goes beyond its budget."""

    info = AttackInfo(id="acme/greedy", version="1", access="black_box", norm="linf", strengths={"weak": {}})

    def budget(self) -> Budget:
        return Budget(radius=1 / 255, queries=2)

    def build(self, device: torch.device):
        def perturb(images, target, rng):
            for _ in range(3):
                target(images)
            return (images + 0.1).clamp(0, 1)

        return perturb


class Peeking(MembershipEvaluator):
    """Scores a row by its position."""

    info = Info(id="acme/peeking", version="1")
    scale: int = Field(default=1, ge=0, description="Of the scores.")

    def build(self, device: torch.device):
        return lambda query: torch.arange(len(query.target_labels)).float() / (self.scale / self.scale)


def test_budgets_bounds_and_the_order_of_rows_are_held() -> None:
    assert "asked for 3 scores" in failures(Greedy())["keeps its budget at strength weak"]
    problems = failures(Peeking())
    assert "rows got different scores" in problems["does not depend on the order of the target's rows"]
    assert "ZeroDivisionError" in problems["works with scale at its lower bound"]


def test_each_run_draws_other_inputs() -> None:
    drawn: list[float] = []
    component = metric(lambda x: drawn.append(float(x.sum())) or x.flatten(1).mean(dim=1))
    check_component(component, seed=1)
    first = drawn[0]
    drawn.clear()
    check_component(component, seed=2)
    assert drawn[0] != first


def test_reports_say_what_failed(tmp_path: Path, harness_forked, harness_here) -> None:
    assert any("in [0, 1]" in message for message in failures(purification(lambda x, rng: 2 * x)).values())
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "bad"\n[project.entry-points.imharness]\nx = "bad_module"\n'
    )
    (tmp_path / "bad_module.py").write_text(
        '"""Bad."""\nfrom imharness.gradients import Info, Model, hookimpl\n'
        'class Bad(Model):\n    """Builds nothing."""\n'
        '    info = Info(id="acme/bad", version="1")\n    def build(self, device):\n        return None\n'
        "@hookimpl\ndef components():\n    return [Bad()]\n"
    )
    result = harness_forked("plugins", "check", ".", "--json", "--seed", "5", cwd=tmp_path)
    assert result.returncode == 1, result.stderr
    facts = json.loads(result.stdout)
    assert facts["seed"] == 5
    assert any(c["status"] == "failed" and "TypeError" in c["message"] for c in facts["checks"])
    missing = harness_here("plugins", "check", "acme/nothing", cwd=tmp_path)
    assert missing.returncode == 2
    assert "is neither a component nor an installed package" in missing.stderr
    (tmp_path / "acme-nothing").mkdir()
    (tmp_path / "acme-nothing" / "pyproject.toml").touch()
    assert "pip install -e acme-nothing" in harness_here("plugins", "check", "acme/nothing", cwd=tmp_path).stderr


AT_IMPORT = {
    "import torch\ntorch.manual_seed(1)\n": "global random state",
    "import subprocess\nsubprocess.run(['true'])\n": "subprocess.Popen",
    "import time\nstart = time.process_time()\nwhile time.process_time() - start < 0.6:\n    pass\n": "took",
    "raise RuntimeError('no')\n": "cannot be imported: RuntimeError: no",
    "import os\nos._exit(3)\n": "cannot be imported: ended with code 3",
    "import sys\nprint('{')\nsys.path_of_another = 1\n": "",
    "import sys\nassert not hasattr(sys, 'path_of_another')\n": "",
}
"""Code of a module -> what the check of its import says; "" means that it passes."""


def test_work_at_import_is_found(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each module is imported alone: what one module did is undone when the next is imported."""
    monkeypatch.setattr(importing, "SLOW_S", 0.5)
    monkeypatch.setattr(importing, "PATIENCE_S", 200.0)
    modules = [f"a_plugin_{i}" for i in range(len(AT_IMPORT))]
    for module, code in zip(modules, AT_IMPORT, strict=True):
        (tmp_path / f"{module}.py").write_text(code)
    for outcome, message in zip(check_imports(modules, [tmp_path]), AT_IMPORT.values(), strict=True):
        assert outcome.status == ("failed" if message else "passed"), outcome.message
        assert message in outcome.message


def test_a_module_that_never_ends_its_import_is_given_up(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_sleeper.py").write_text("import time\ntime.sleep(1000)\n")
    assert importing.apart("a_sleeper", 0.2)["error"] == "took longer than 0.2 s"


def test_an_interruption_that_is_turned_into_another_error_is_no_failure() -> None:
    """Torch turns an interruption into another error while it loads weights."""

    def wrapping() -> str:
        try:
            time.sleep(5)
        except Exception as error:
            raise RuntimeError("loading failed") from error
        return "done"

    result = Trial(installed().one("defense", "flip"), "a check", wrapping, limit=0.05, at_bound=True).run()
    assert (result.status, result.message) == ("passed", "took longer than 0.05 s without an error")
    broken = Trial(installed().one("defense", "flip"), "a check", lambda: [][0], limit=5).run()
    assert (broken.status, broken.message) == ("failed", "raised IndexError: list index out of range")


def test_an_interruption_that_falls_into_a_destructor_comes_again() -> None:
    """Python drops an error that is raised in a destructor, or in the callback of a weak reference."""

    class Slow:
        def __del__(self) -> None:
            time.sleep(0.2)

    def dropping() -> str:
        Slow()
        time.sleep(5)
        return "done"

    result = Trial(installed().one("defense", "flip"), "a check", dropping, limit=0.05, at_bound=True).run()
    assert (result.status, result.message) == ("passed", "took longer than 0.05 s without an error")


def test_a_check_that_is_broken_off_leaves_gradients_as_they_were() -> None:
    """The interruption may come in the lines that end a block without gradients."""

    def slow() -> str:
        torch.set_grad_enabled(False)
        time.sleep(5)
        return "never"

    outcome = Trial(installed().one("metric", "embedded-cnn"), "made for a test", slow, limit=0.1).run()
    assert (outcome.late, torch.is_grad_enabled()) == (True, True)


class Ghost(torch.autograd.Function):
    """A mirror whose gradient is that of the identity, with 1.3 % of the right one added."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        return x.flip(3)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + 0.013 * gradient.flip(3)


def test_a_mirror_whose_gradient_is_a_ghost_of_its_own_fails_as_it_is_flagged_where_it_is_submitted() -> None:
    problems = failures(purification(lambda x, rng: Ghost.apply(x)))
    assert "its own gradient misleads attacks" in problems.pop("is differentiable if and only if it says so")
    assert not problems


@pytest.mark.parametrize(
    ("purify", "facts"),
    [
        (lambda x, rng: x.flip(3), {}),
        (lambda x, rng: x.square(), {}),
        (lambda x, rng: x.mul(15).round() / 15, {"differentiable": False}),
        (lambda x, rng: x.detach().flip((2, 3)), {"differentiable": False, "stand_in": "harness/flip"}),
    ],
    ids=["mirror", "gamma", "levels", "turn with a stand-in"],
)
def test_honest_defenses_pass_linear_or_not(purify: Purify, facts: dict) -> None:
    assert not failures(purification(purify, **facts))


def test_a_mirror_that_says_that_it_has_no_gradient_needs_a_stand_in_that_moves_pixels() -> None:
    problems = failures(purification(lambda x, rng: x.detach().flip(3), differentiable=False))
    assert "the identity, which stands for its gradient, misleads attacks" in " ".join(problems.values())


def test_a_metric_whose_gradient_is_another_one_s_fails() -> None:
    """Both metrics rise with the mean grey, which is all that changes in three smooth directions show."""

    def grey(x: Images) -> torch.Tensor:
        return x.flatten(1).mean(dim=1)

    def rough(x: Images) -> torch.Tensor:
        return 0.5 * grey(x) + 400 * (x[..., 1:] - x[..., :-1]).square().flatten(1).mean(dim=1)

    def lying(x: Images) -> torch.Tensor:
        return rough(x.detach()) + 0.5 * (grey(x) - grey(x).detach())

    assert not failures(metric(rough))
    assert "along random changes of one level" in " ".join(failures(metric(lying)).values())


def test_a_check_that_is_late_leaves_no_half_of_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that is cut off stays broken: a second try lacks what the first try had imported."""
    package = tmp_path / "dawdling"
    package.mkdir()
    (package / "part.py").write_text("number = 1\n")
    (package / "__init__.py").write_text("import time\nfrom .part import number\ntime.sleep(0.2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def importing() -> str:
        library = importlib.import_module("dawdling")
        time.sleep(5)
        return str(library)

    outcome = Trial(installed().one("defense", "flip"), "a check", importing, limit=0.05).run()
    assert outcome.late
    assert importlib.import_module("dawdling").part.number == 1
