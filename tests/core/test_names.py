"""`did_you_mean` and `unknown_name`: wrong names are answered by the nearest right one."""

import pytest

from imharness.errors import MOST, did_you_mean, unknown_name


@pytest.mark.parametrize(
    ("name", "choices", "meant"),
    [
        ("jepg", ["harness/jpeg", "harness/ifgsm"], "jpeg"),
        ("harness/jpg", ["harness/jpeg", "acme/jpeg"], "harness/jpeg"),
        ("LPIPS", ["harness/lpips", "psnr"], "lpips"),
        ("psnr", ["PSNR"], "PSNR"),
        ("mem", ["membership", "iqa"], "membership"),
        ("jpeg[qualty=3]", ["harness/jpeg[quality=30]"], "harness/jpeg[quality=30]"),
        ("zzz", ["membership", "iqa"], ""),
        ("x", [], ""),
        ("", ["iqa"], ""),
        ("evaluate", ["acme/evaluate"], "acme/evaluate"),
        ("evaluate", ["evaluate"], ""),
    ],
)
def test_the_nearest_name_is_found(name: str, choices: list[str], meant: str) -> None:
    assert did_you_mean(name, choices) == (f" Did you mean {meant!r}?" if meant else "")


def test_names_are_listed_unless_they_are_many_and_one_is_near() -> None:
    assert unknown_name("no dog is called 'rxe'", "rxe", ["rex", "ada"]) == (
        "no dog is called 'rxe'. Did you mean 'rex'? Known: rex, ada."
    )
    assert unknown_name("no dog", "rxe", []) == "no dog. Known: none."
    many = [f"dog{number}" for number in range(MOST + 2)]
    assert unknown_name("no dog", "dog3x", many) == "no dog. Did you mean 'dog3'?"
    assert unknown_name("no dog", "zzz", many, "Dogs").endswith(f"dog{MOST - 1} and 2 more.")
