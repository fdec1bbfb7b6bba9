"""How rows and attacks are named on the site."""

import pytest

from imharness_leaderboard.chips import Name, name_of, short_names
from imharness_leaderboard.wording import ON_AXIS, brief, on_axis


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("harness/flip", Name("", "flip", ())),
        ("acme/blur[radius=2,size=3]", Name("acme", "blur", ("radius=2", "size=3"))),
        ("harness/ifgsm within 1/255", Name("", "ifgsm within 1/255", ())),
        ("acme/push within 1/255", Name("acme", "push within 1/255", ())),
        ("harness/ifgsm[steps=10] within 1/255", Name("", "ifgsm within 1/255", ("steps=10",))),
        ("acme/push[a=(1, 2),b=[3,4]] within 8/255", Name("acme", "push within 8/255", ("a=(1, 2)", "b=[3,4]"))),
        ("harness/ladder[severities=[2],size=96]", Name("", "ladder", ("severities=[2]", "size=96"))),
        ("harness/flip + acme/blur[radius=2]", Name("", "flip + acme/blur", ("radius=2",))),
        ("harness/folder-ladder[folder=a/b]", Name("", "folder-ladder", ("folder=a/b",))),
    ],
)
def test_a_label_is_taken_apart_and_a_fraction_stays_whole(label: str, name: Name) -> None:
    assert name_of(label) == name


def test_balls_of_one_attack_keep_their_names() -> None:
    balls = [f"harness/ifgsm within {radius}/255" for radius in (1, 2, 4)]
    assert list(short_names(balls).values()) == [f"ifgsm within {radius}/255" for radius in (1, 2, 4)]


def test_a_long_label_beside_an_axis_is_broken_between_its_parts() -> None:
    label = (
        "harness/early-stopping, stopped nearest to the accuracy of harness/dp-sgd[noise=0.3,batch_size=160,epochs=60]"
    )
    lines = on_axis(label).split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= ON_AXIS
    assert "".join(lines) == brief(label)
    assert on_axis("harness/memguard[epochs=20,patience=8]") == "memguard[epochs=20,patience=8]"
