"""The data set NIGHTS: which image people found nearer, and errors for tables of another form."""

from pathlib import Path

import pytest
import torch
from tests.standins import nights

from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.errors import ContractError, Unavailable

HEAD = "id,left_vote,right_vote,votes,ref_path,left_path,right_path,split,is_imagenet\n"
ROW = "7,0,1,8,ref/000/000.png,distort/000/000_0.png,distort/000/000_1.png,test,True\n"


def loaded(folder: Path, split: str = "test") -> ImageSet:
    return installed().one("dataset", f"nights[path={folder},split={split},size=16]").build(torch.device("cpu"))


def test_each_triplet_has_the_side_that_people_chose(tmp_path: Path) -> None:
    nights(tmp_path)
    images = loaded(tmp_path)
    assert images.names[:3] == ("0/reference", "0/left", "0/right")
    assert images.columns["judge"].tolist()[1::3] == [0, 1, 0]
    assert images.columns["judges"].tolist()[1::3] == [6, 7, 8]
    assert images.columns["family"].tolist()[::3] == ["other", "other", "imagenet"]
    assert images.load([0, 4]).shape == (2, 3, 16, 16)
    assert len(loaded(tmp_path, "val")) == len(loaded(tmp_path, "train")) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD.replace("votes,", ""), "has no column votes"),
        (HEAD + ROW.replace(",8,", ",5,"), "no triplet of the split test with 6 votes"),
        (HEAD + ROW.replace("7,0,1", "7,0,2"), "line 2: right_vote is 0 or 1"),
        (HEAD + ROW.replace("True", "yes"), "is_imagenet True or False"),
        (HEAD + ROW.replace("ref/000", "../000"), "is no file below the folder"),
    ],
)
def test_a_table_that_says_something_else_is_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(content)
    with pytest.raises(ContractError, match=message) as caught:
        loaded(tmp_path)
    assert "data.csv" in str(caught.value)


def test_it_is_unavailable_where_it_is_not(empty_places: Path) -> None:
    with pytest.raises(Unavailable, match="nights"):
        installed().one("dataset", "nights").require()
