"""The page on conventions of LPIPS: its numbers are those of the script, and they tell each convention apart."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "lpips.md"
SCRIPT = runpy.run_path(str(ROOT / "docs" / "lpips_conventions.py"))


def printed() -> dict[str, list[float]]:
    """Return the numbers of the table on the page by convention."""
    heads, *lines = re.findall(r"^\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [[float(number) for number in line.split(" | ")[1:]] for line in lines]
    return dict(zip(heads.split(" | ")[1:], map(list, zip(*rows, strict=True)), strict=True))


def test_each_convention_is_told_from_the_others_by_the_numbers_of_the_page() -> None:
    table = printed()
    assert [*table] == [*SCRIPT["CONVENTIONS"]]
    numbers = np.array([*table.values()])
    assert numbers.shape == (5, 10)
    differences = np.abs(numbers[:, None] - numbers[None]).max(axis=2)[~np.eye(5, dtype=bool)]
    assert differences.min() > 0.01


def test_the_lines_of_the_page_make_the_pictures_of_the_script() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    pairs = []
    exec(code, {"my_lpips": lambda changed, original: pairs.append((original, changed))})
    assert len(pairs) == 10
    for number, images in enumerate(pairs, 1):
        for image, wanted in zip(images, SCRIPT["pair"](number), strict=True):
            np.testing.assert_array_equal(image, wanted)


@pytest.mark.usefixtures("assets_at_hand", "shared_data")
def test_the_numbers_of_the_page_are_those_of_the_published_weights() -> None:
    for convention, values in SCRIPT["distances"]("lpips[net=squeeze]").items():
        assert printed()[convention] == pytest.approx(values, abs=2e-4)


def test_a_wrong_convention_changes_what_the_metric_that_ships_says() -> None:
    table = SCRIPT["distances"]("lpips[net=embedded,variant=scratch]")
    right = table.pop("right: [-1, 1]")
    assert all(min(values) > 0 and not np.allclose(values, right, rtol=0.01) for values in table.values())
