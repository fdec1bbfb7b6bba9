"""Mistakes of users in commands and in calls: each ends with one line that names what is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import imharness as ih
from imharness.cli import cli
from imharness.errors import HarnessError

IMAGES = np.random.default_rng(0).random((2, 3, 32, 32), dtype=np.float32)
COMMANDS = {  # words of a command -> what its line must contain
    "run --all --budget soon --profile quick": "'soon' is not a time",
    "run --all --profile bad.toml": "bad.toml is not valid TOML",
    "run --profile quick": "say what to run",
    "results list --store nowhere": "nowhere does not exist or is empty",
    "results rank --store empty": "empty does not exist or is empty",
    "assets get": "say what to get",
    "plugins new defense Bad/Name": "cannot name a component",
    "plugins check text.txt": "neither a component nor an installed package",
    "membership audit text.txt": "the ending must be .npz, .csv or .parquet",
    "membership audit none.npz": "none.npz is not an npz file of plain arrays",
    "membership one-run text.txt": "the ending must be .npz, .csv or .parquet",
    "submissions validate empty": "submission.toml does not exist",
    "submissions run empty": "submission.toml does not exist",
    "submissions report x --store empty": "no submission 'x'",
    "submissions rebuild text.txt --store other": "text.txt has no submission to run; give the file ledger.jsonl",
    "reproduce x --store empty": "'x' is neither a submission",
    "score mse text.txt --reference text.txt": "text.txt is not a readable image",
}
CALLS: dict[str, tuple[Callable[[], Any], str]] = {  # name -> call, and a pattern of its line
    "metric of None": (lambda: ih.score(None, IMAGES), "metric: None is not a metric"),  # type: ignore[arg-type]
    "metric in a list": (lambda: ih.score(["mse"], IMAGES), "is not a metric"),  # type: ignore[arg-type]
    "five dimensions": (lambda: ih.score("mse", IMAGES[None], IMAGES), "images must have shape"),
    "texts": (lambda: ih.score("mse", np.array(["a"]), IMAGES), "an array of numbers"),
    "no image": (lambda: ih.score("mse", IMAGES[:0], IMAGES[:0]), "images must have shape"),
    "truth values": (lambda: ih.score("mse", IMAGES > 0.5, IMAGES), "got bool"),
    "whole numbers": (lambda: ih.score("mse", (IMAGES * 255).astype(np.int64), IMAGES), "got int64"),
    "device": (lambda: ih.score("mse", IMAGES, IMAGES, device="gpu"), "device: device 'gpu'"),
    "compared texts": (lambda: ih.compare("a", "b"), "a: expected a result"),  # type: ignore[arg-type]
    "loaded file": (lambda: ih.load("text.txt"), "text.txt is not a folder"),
    "loaded folder": (lambda: ih.load("empty"), "empty has no tables"),
    "loaded number": (lambda: ih.load(3), "store_or_site: expected"),  # type: ignore[arg-type]
    "audit of nothing": (lambda: ih.audit(None), "give the outputs of a model"),
    "audit of a file": (lambda: ih.audit("model.pt"), "target has no probabilities"),
    "audit of a module": (lambda: ih.audit(torch.nn.Linear(2, 2)), "target has no probabilities"),
    "store that is a file": (
        lambda: ih.evaluate("flip", store="text.txt", limit=2, progress=False),
        "store text.txt cannot be written: it is a file, no folder; choose another store$",
    ),
    "track": (lambda: ih.evaluate("flip", track="iq"), "track: no track is called 'iq'"),
    "dataset": (lambda: ih.evaluate("flip", dataset=[1, 2]), "dataset must have shape"),
    "part of an image": (lambda: ih.evaluate("flip", limit=2.5), "limit: expected"),  # type: ignore[arg-type]
    "profile": (lambda: ih.run(profile="bad.toml", store="s"), "profile: bad.toml is not valid TOML"),
    "workers": (lambda: ih.run(profile="quick", store="s", workers=-1), "workers: expected"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder with an empty folder and three files that are not what commands expect."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "bad.toml").write_text("a = [")
    (tmp_path / "none.npz").write_bytes(b"")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_mistaken_command_ends_with_one_line(words: str) -> None:
    result = CliRunner().invoke(cli, words.split())
    assert result.exit_code != 0
    assert isinstance(result.exception, HarnessError | SystemExit)
    message = str(result.exception) if isinstance(result.exception, HarnessError) else result.output
    assert COMMANDS[words] in message
    assert "\n" not in message.strip()


@pytest.mark.parametrize("name", CALLS)
def test_a_mistaken_call_raises_one_line(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(HarnessError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)
