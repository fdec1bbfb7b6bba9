"""What a run says that it computes: in words of the track, with names that readers know."""

import re

import pytest

from imharness.components.registry import installed
from imharness.contracts.track import Step, Track
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.results.tasks import TaskSpec
from imharness.running.watching import ROLES, doing

TRACKS = [entry.component for entry in installed().entries.values() if entry.component.kind == "track"]
EMBEDDED = load_profile("embedded")


@pytest.mark.parametrize("track", TRACKS, ids=lambda track: track.info.id)
def test_every_step_of_every_track_says_what_it_computes(track: Track) -> None:
    for step in track.steps:
        assert re.match(r"[a-z]+ing ", step.doing), step.name


@pytest.mark.parametrize("track", sorted(EMBEDDED.tracks))
def test_the_words_of_planned_tasks_have_no_label_no_role_and_no_bracket(track: str) -> None:
    graph = plan_track(track, EMBEDDED, installed(), limit=8)
    words = {doing(graph.track, task.spec, 36) for task in graph.tasks.values()}
    assert len(words) > len({task.spec.step for task in graph.tasks.values()})
    for text in words:
        assert not re.search(r"[{}\[\]/]|  | $|_", text), text


def spec(**changes: object) -> TaskSpec:
    roles = {"dataset": "harness/kodak", "metric": "harness/koniq", "attack": "harness/ifgsm[steps=10]"}
    components = {
        role: {"kind": role, "id": label.partition("[")[0], "version": "1", "label": label, "parameters": {}}
        for role, label in (roles | dict(changes.pop("roles", {}))).items()  # type: ignore[call-overload]
    }
    fields = {"track": "harness/iqa", "step": "attack", "version": "1", "components": components, "options": {}}
    return TaskSpec.model_validate({**fields, "limit": None, "seed": 0, "needs": {}, **changes})


def test_what_is_not_there_is_left_out_and_a_limit_counts() -> None:
    track = installed().track("iqa")
    assert doing(track, spec(), 36) == "attacking 36 photographs with I-FGSM on KonIQ"
    assert doing(track, spec(limit=8), 36) == "attacking 8 photographs with I-FGSM on KonIQ"
    assert doing(track, spec()) == "attacking photographs with I-FGSM on KonIQ"
    defended = spec(roles={"defense": "harness/jpeg[quality=30]"})
    assert doing(track, defended).endswith(" on KonIQ behind JPEG")


def test_a_step_without_words_has_its_name_and_components(monkeypatch: pytest.MonkeyPatch) -> None:
    track = installed().track("iqa")
    (step,) = (step for step in track.steps if step.name == "attack")
    monkeypatch.setattr(type(track), "steps", (Step(step.run, step.version, step.name),))
    assert doing(track, spec()) == "attack KonIQ I-FGSM"
    assert ROLES.findall("{count}photographs with {attack}") == ["count", "attack"]
