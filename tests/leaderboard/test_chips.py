"""How rows and attacks are named on the site."""

import pytest

from imharness.documents.naming import brief
from imharness_leaderboard.names import Name, in_names, name_of, short_names
from imharness_leaderboard.wording import ON_AXIS, on_axis
from imharness_membership.tables.contest import MATCHED as STOPPED


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("harness/flip", Name("", "Flip", ())),
        ("harness/crop[size=48]", Name("", "Crop 48 px", ())),
        ("acme/blur[radius=2,size=3]", Name("acme", "blur", ("radius=2", "size=3"))),
        ("harness/ifgsm within 1/255", Name("", "I-FGSM within 1/255", ())),
        ("acme/push within 1/255", Name("acme", "push within 1/255", ())),
        ("harness/ifgsm[steps=10] within 1/255", Name("", "I-FGSM within 1/255", ("steps=10",))),
        ("acme/push[a=(1, 2),b=[3,4]] within 8/255", Name("acme", "push within 8/255", ("a=(1, 2)", "b=[3,4]"))),
        ("harness/ladder[severities=[2],size=96]", Name("", "Ladder 96 px", ("severities=[2]",))),
        ("harness/real-esrgan[backbone=embedded]", Name("", "Real-ESRGAN (stand-in)", ())),
        ("harness/diffpure[backbone=embedded,steps=5]", Name("", "DiffPure (stand-in)", ("steps=5",))),
        ("harness/crop[backbone=embedded,size=48]", Name("", "Crop 48 px (stand-in)", ())),
        ("acme/disco[backbone=embedded]", Name("acme", "disco", ("backbone=embedded",))),
        ("harness/flip + acme/blur[radius=2]", Name("", "Flip + acme/blur", ("radius=2",))),
        ("harness/folder-ladder[folder=a/b]", Name("", "Folder ladder", ("folder=a/b",))),
    ],
)
def test_a_label_is_taken_apart_and_a_fraction_stays_whole(label: str, name: Name) -> None:
    assert name_of(label) == name


def test_balls_of_one_attack_keep_their_names() -> None:
    balls = [f"harness/ifgsm within {radius}/255" for radius in (1, 2, 4)]
    assert list(short_names(balls).values()) == [f"I-FGSM within {radius}/255" for radius in (1, 2, 4)]


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("harness/jpeg[quality=30]", "JPEG (quality=30)"),
        (
            "harness/early-stopping, stopped nearest to the accuracy of harness/advreg[width=64]",
            "Early stopping, at AdvReg’s accuracy",
        ),
        ("harness/cnn[training=harness/apgd-lpips[radius=2]]", "CNN (training=APGD-LPIPS (radius=2))"),
        ("harness/masking[top_k=3] holds, harness/none does not", "Masking (top_k=3) holds, No defense does not"),
        ("psnr, worst attack", "PSNR, worst attack"),
        ("acme/psnr[size=4] of acme/harness/jpeg", "acme/psnr[size=4] of acme/harness/jpeg"),
        ("harness/diffpure[backbone=embedded,steps=5] holds", "DiffPure (stand-in, steps=5) holds"),
        ("harness/cadv[backbone=embedded]", "cAdv (stand-in)"),
        ("harness/cadv", "cAdv"),
        ("harness/dp", "DensePure"),
        ("harness/dp-sgd[noise=1.0]", "DP-SGD (noise=1.0)"),
    ],
)
def test_a_text_names_components_as_readers_know_them(text: str, displayed: str) -> None:
    assert brief(text) == displayed


def test_in_a_sentence_the_longest_label_is_the_one_that_is_named() -> None:
    names = {"harness/flip": "Flip", "harness/flip + acme/blur": "both", "harness/flip within 1/255": "a little flip"}
    sentence = "harness/flip + acme/blur beats harness/flip within 1/255, and harness/flip beats none."
    assert in_names(sentence, names) == "both beats a little flip, and Flip beats none."


def test_the_name_of_an_entry_that_stops_early_is_made_from_the_label_that_the_track_writes() -> None:
    assert brief(f"harness/early-stopping{STOPPED}harness/l2") == "Early stopping, at L2’s accuracy"


def test_a_name_has_parameters_only_where_another_one_is_the_same() -> None:
    labels = [
        "harness/jpeg",
        "harness/jpeg[quality=30]",
        "harness/crop[size=48]",
        "harness/unet[width=8] + acme/x[a=1]",
    ]
    assert list(short_names(labels).values()) == ["JPEG", "JPEG (quality=30)", "Crop 48 px", "Unet + acme/x"]


def test_a_long_label_beside_an_axis_is_broken_between_its_parts() -> None:
    label = "acme/early-stopping[learning_rate=0.001,momentum=0.9,noise=0.3,batch_size=160,epochs=60]"
    lines = on_axis(label).split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= ON_AXIS
    assert "".join(lines) == brief(label)
    assert on_axis("harness/memguard[epochs=20,patience=8]") == "MemGuard (epochs=20, patience=8)"


def test_two_stand_ins_of_one_method_are_told_apart() -> None:
    labels = [f"harness/diffpure[backbone=embedded,steps={steps}]" for steps in (2, 5)] + ["harness/diffpure"]
    names = ["DiffPure (stand-in, steps=2)", "DiffPure (stand-in, steps=5)", "DiffPure"]
    assert list(short_names(labels).values()) == names
