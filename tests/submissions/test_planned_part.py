"""A submission gets the part of a track's graph that its own tables need, in the tracks that fit its entry."""

import pytest

from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile
from imharness_submissions.planned import concerns, only_with


def test_a_submission_is_planned_with_what_its_tables_need_and_nothing_of_its_rivals() -> None:
    select = {
        "dataset": ["harness/severity-ladder[size=96]"],
        "metric": ["embedded-cnn"],
        "attack": ["ifgsm", "uap"],
        "defense": ["none", "jpeg", "gaussian-blur", "squeeze"],
    }
    profile = Profile(name="test", description="", tracks={"harness/iqa": {"select": select}})
    graph = plan_track("harness/iqa", profile, installed())
    subset = only_with(graph, {"harness/jpeg"}, lambda ref: ref.id in ("harness/none", "harness/squeeze"))
    defenses = {r.id for t in subset.tasks.values() for role, r in t.spec.components.items() if role == "defense"}
    assert defenses == {"harness/jpeg", "harness/none", "harness/squeeze"}, "controls are what it has to be better than"
    assert subset.run_configuration == graph.run_configuration
    assert {"clean", "attack"} <= set(subset.by_step()), "what it is compared with"
    assert all(need in subset.tasks for t in subset.tasks.values() for need in t.spec.needs.values())
    assert only_with(graph, {"nobody/nothing"}, lambda ref: True).tasks == {}


@pytest.mark.parametrize(
    ("kind", "name", "every", "tracks"),
    [
        ("metric", "harness/psnr", ("iqa", "perceptual"), ["perceptual"]),
        ("metric", "harness/psnr", ("iqa", "membership"), ["iqa", "membership"]),
        ("metric", "harness/psnr", ("iqa", "perceptual", "reconstruction"), ["perceptual", "reconstruction"]),
        ("metric", "harness/embedded-cnn", ("iqa", "perceptual"), ["iqa"]),
        ("defense", "harness/jpeg", ("iqa", "reconstruction"), ["iqa"]),
        ("attack", "harness/ifgsm", ("iqa", "perceptual"), ["iqa", "perceptual"]),
    ],
)
def test_an_entry_is_planned_in_the_contests_of_its_like(
    kind: str, name: str, every: tuple[str, ...], tracks: list[str]
) -> None:
    """A distance is attacked behind every defense of another contest only where no contest of distances is run."""
    component, loaded = installed().one(kind, name), [installed().track(track) for track in every]
    wanted = [label for label, track in zip(every, loaded, strict=True) if concerns(track, component, loaded)]
    assert wanted == tracks
