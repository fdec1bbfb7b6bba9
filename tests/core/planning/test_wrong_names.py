"""A wrong name of a field, a component or a track in a profile or an option names the right one."""

from pathlib import Path

import pytest

from imharness.components.loading import LoadFailure
from imharness.components.registry import Registry, installed
from imharness.errors import UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile

# A profile is written from HEAD, TRACK and further lines.
HEAD = 'name = "p"\ndescription = "d"\n'
TRACK = '[tracks."harness/iqa"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "batchsize = 3\n", r"batchsize: .*Did you mean 'batch_size'\? Fields: name, description, batch_size"),
        (HEAD + TRACK + "select = {}\noptionz = {}\n", r"optionz: .*Did you mean 'options'\? Fields: select, options"),
    ],
)
def test_a_wrong_field_of_a_profile_names_the_others(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        load_profile(str(tmp_path / "p.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "select = {}\noptions = { sampels = 2 }\n",
            r"options of track .*sampels: .*Did you mean 'samples'\? Fields: ",
        ),
        (
            "select = {}\nparameters.'harness/jpg' = {}\n",
            r"'harness/jpg', but there is no such component.*Did you mean 'harness/jpeg'",
        ),
        (
            "select = { defense = ['jpeg'] }\nparameters.'harness/jpeg' = { qualty = 3 }\n",
            r"parameters of harness/jpeg: qualty: .*Did you mean 'quality'\? Fields: quality",
        ),
        ("select = { defence = ['jpeg'] }\n", r"'defence' is not a kind of component\. Did you mean 'defense'"),
        ("select = { defense = ['jepg'] }\n", r"no defense is called 'jepg'\. Did you mean 'jpeg'"),
    ],
)
def test_a_wrong_name_in_a_track_of_a_profile_names_the_right_one(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.toml").write_text(HEAD + TRACK + text)
    with pytest.raises(UsageError, match=message):
        plan_track("harness/iqa", load_profile(str(tmp_path / "p.toml")), installed())


def test_a_wrong_parameter_in_a_name_names_the_others() -> None:
    with pytest.raises(UsageError, match=r"harness/jpeg: qualty: .*Did you mean 'quality'\? Fields: quality"):
        installed().find("defense", "jpeg[qualty=30]")


def test_a_wrong_value_after_a_colon_is_said_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"harness/torchattacks: method: .*PGD.* \(got 'PDG'\)$"):
        installed().find("attack", "torchattacks:PDG")


def test_parameters_of_a_package_that_does_not_load_stop_no_run() -> None:
    whole = installed()
    remaining = [entry for entry in whole.entries.values() if entry.component.info.id != "harness/uap"]
    profile = load_profile("embedded")
    with pytest.raises(UsageError, match="'harness/uap', but there is no such component"):
        plan_track("harness/iqa", profile, Registry(remaining))
    graph = plan_track("harness/iqa", profile, Registry(remaining, [LoadFailure("uap", "it does not load")]))
    assert graph.tasks
