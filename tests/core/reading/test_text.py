"""Which texts are read as finite numbers, and which are one plain line."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imharness.errors import UsageError
from imharness.images import MetricInfo
from imharness.reading.text import is_plain, number, plain, stripped


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), ("-1.5e-3", -0.0015), ("+.5", 0.5), (" 2. ", 2.0), ("1E4", 1e4)]
)
def test_numbers_of_ascii_are_read(text: str, value: float) -> None:
    assert number(text, "x") == value


@pytest.mark.parametrize(
    "text", ["", None, "1_000", "\u0661", "\uff11", "nan", "inf", "1e999", "0x1", "1,5", "1 2", "--1", "9" * 400, "1\n"]
)
def test_what_is_no_number_is_refused(text: str | None) -> None:
    with pytest.raises(UsageError, match=r"^x is not a finite number"):
        number(text, "x")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_read_as_it_is_written(value: float) -> None:
    assert number(repr(value), "x") == value


@given(st.text())
def test_plain_text_is_plain(text: str) -> None:
    assert is_plain(plain(text))
    assert all(is_plain(line) for line in stripped(text).replace("\t", " ").split("\n"))
    assert len(stripped(text)) == len(text)
    stripped(text).encode()


def test_languages_keep_their_letters() -> None:
    for text in (
        "M\u00fcller",
        "\u5f20\u4f1f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f52c",
    ):
        assert is_plain(text)
        assert plain(text) == text
        assert stripped(f"{text}\n\t\x1b") == f"{text}\n\t "


@pytest.mark.parametrize("bounds", [(0, math.inf), (-math.inf, 0), (0, math.nan), (1, 1)])
def test_the_range_of_a_metric_is_finite(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="bounds must be finite"):
        MetricInfo(id="a/b", version="1", higher_means="better_quality", bounds=bounds)
