"""Answers that are released rounded or cut to the top classes become probabilities, however an audit gets them."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch.utils.data import DataLoader, TensorDataset

import imharness as ih
from imharness.cli import cli
from imharness.errors import UsageError
from imharness_membership.probabilities import probabilities_of

ROWS, CLASSES = 400, 10


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


LABELS = np.random.default_rng(1).integers(0, CLASSES, ROWS)
MEMBER = np.arange(ROWS) % 2 == 0
LOGITS = np.random.default_rng(2).normal(size=(ROWS, CLASSES)) + (3 + MEMBER)[:, None] * np.eye(CLASSES)[LABELS]
EXACT = softmax(LOGITS)


def top(shares: np.ndarray, k: int) -> np.ndarray:
    return np.where(shares >= np.sort(shares, axis=1)[:, -k, None], shares, 0)


def of_torch(kind: torch.dtype) -> np.ndarray:
    return torch.from_numpy(EXACT).to(kind).float().numpy()


# Outputs as they may be released, and how far from the exact ones the probabilities made of them may lie.
RELEASED = {
    "as they are": (EXACT, 1e-6),
    "two decimals": (EXACT.round(2), 0.02),
    "one decimal": (EXACT.round(1), 0.12),
    "two decimals cut off": (np.floor(EXACT * 100) / 100, 0.07),
    "bfloat16": (of_torch(torch.bfloat16), 0.005),
    "float16": (EXACT.astype(np.float16), 0.001),
    "8 bits": (of_torch(torch.float8_e4m3fn), 0.05),
    "top 3": (top(EXACT, 3), 0.15),
    "top 1": (top(EXACT, 1), 0.5),
    "top 3 with two decimals": (top(EXACT, 3).round(2), 0.15),
    "a little outside": (EXACT * (1 + 4e-5) - 2e-6, 1e-4),
}


@pytest.mark.parametrize(("released", "near"), RELEASED.values(), ids=RELEASED)
def test_what_is_released_stays_near_what_the_model_said(released: np.ndarray, near: float) -> None:
    probabilities, done = probabilities_of(released, "outputs")
    assert probabilities.dtype == np.float32
    assert probabilities.sum(axis=1) == pytest.approx(1, abs=2e-4)
    assert np.abs(probabilities - EXACT).max() <= near
    sums = np.abs(np.asarray(released, dtype=np.float64).sum(axis=1) - 1)
    assert bool(done) == bool((sums > 1e-4).any())
    nonzero = np.asarray(released) > 0
    cut = sums[:, None] * np.ones(CLASSES)
    assert np.abs(probabilities - released)[nonzero].max() <= np.maximum(cut, 1e-6)[nonzero].max()
    if done:
        assert done.startswith(f"outputs: {int((sums > 1e-4).sum())} of {ROWS} rows sum to ")


def test_the_probability_of_the_top_class_survives_the_cut() -> None:
    """A row of 0.6 and zeros divided by its sum would say 1, as every other row: nothing would be left to attack."""
    probabilities, done = probabilities_of(top(EXACT, 1), "outputs")
    assert probabilities.max(axis=1) == pytest.approx(EXACT.max(axis=1), abs=1e-6)
    assert "spread evenly over the classes with 0" in done


@pytest.mark.parametrize(
    ("released", "logits", "message"),
    [
        (EXACT * 100, None, "all rows sum to about 100; divide them by it"),
        ((EXACT * 255).round().astype(np.uint8), True, "all rows sum to about 255"),
        (1 / (1 + np.exp(-LOGITS)), None, "row 0 does not sum to 1"),
        (EXACT[:, :9], None, "does not sum to 1, nor as rounded probabilities or the top classes do"),
        (np.where(np.arange(CLASSES) == 3, EXACT, 0), None, "does not sum to 1"),
        (EXACT.round(2), True, "they are probabilities, so leave --logits out"),
        (LOGITS, False, "is outside .0, 1.; if these are logits, apply a softmax first"),
        (np.where(np.arange(ROWS)[:, None] == 7, np.nan, LOGITS), None, "row 7 holds NaN"),
        (np.where(np.arange(ROWS)[:, None] == 7, -np.inf, LOGITS), None, "row 7 holds no finite number"),
        (EXACT[:, :1], None, "at least 2 classes"),
        (EXACT[:0], None, "has no rows"),
    ],
)
def test_what_is_neither_is_refused_with_the_row(released: np.ndarray, logits: bool | None, message: str) -> None:
    with pytest.raises(UsageError, match=f"^outputs.*{message}"):
        probabilities_of(released, "outputs", logits)


def test_logits_become_what_a_softmax_gives() -> None:
    for logits in (LOGITS, LOGITS - 50, np.log(EXACT), LOGITS.astype(np.float32)):
        assert probabilities_of(logits, "outputs")[0] == pytest.approx(EXACT, abs=1e-6)
    masked = LOGITS.copy()
    masked[:, 0] = -np.inf
    assert (probabilities_of(masked, "outputs")[0][:, 0] == 0).all()


class Released(torch.nn.Module):
    """Answers rows by their number."""

    def __init__(self, shares: np.ndarray) -> None:
        super().__init__()
        self.shares = torch.from_numpy(np.asarray(shares, dtype=np.float32))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.shares[rows.long().flatten()]


class Looks:
    """An evaluator that keeps the outputs of the target that it gets."""

    def __init__(self) -> None:
        self.largest: list[float] = []
        self.own = ih.evaluator(self._look, name="look")

    def _look(self, query) -> torch.Tensor:
        self.largest.append(float(query.target_outputs.amax(dim=1).mean()))
        return query.target_outputs.amax(dim=1) - 0.5


GIVEN = {name: RELEASED[name][0] for name in ("two decimals", "bfloat16", "top 3", "top 1")}


def arrays_of(shares: np.ndarray) -> dict[str, np.ndarray]:
    return {"probabilities": shares, "labels": LABELS, "member": MEMBER}


def by_arrays(shares: np.ndarray, look: Looks, folder: Path) -> str:
    return repr(ih.audit(arrays_of(shares), arrays_of(EXACT), evaluators=[look.own]))


def by_module(shares: np.ndarray, look: Looks, folder: Path) -> str:
    rows = torch.arange(ROWS)
    loaders = [DataLoader(TensorDataset(rows[m], torch.from_numpy(LABELS[m])), 50) for m in (MEMBER, ~MEMBER)]
    return repr(ih.audit((Released(shares), *loaders), arrays_of(EXACT), evaluators=[look.own]))


def by_references(shares: np.ndarray, look: Looks, folder: Path) -> str:
    masks = np.random.default_rng(0).random((4, ROWS)) < 0.5
    references = {"probabilities": np.stack([np.roll(shares, k, axis=0) for k in range(1, 5)]), "member": masks}
    return repr(ih.audit(arrays_of(shares), references=references, evaluators=[look.own]))


def by_training(shares: np.ndarray, look: Looks, folder: Path) -> str:
    def train(indices: np.ndarray, seed: int) -> Released:
        return Released(np.roll(shares, seed % 101, axis=0))

    data = (np.arange(ROWS)[:, None], LABELS)
    more = {"references": 4, "cache": folder, "progress": False}
    return repr(ih.audit(train=train, data=data, evaluators=[look.own], **more))


@pytest.mark.parametrize("shares", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("way", [by_arrays, by_module, by_references, by_training])
def test_evaluators_get_probabilities_whichever_way_they_come(way, shares: np.ndarray, tmp_path: Path) -> None:
    look = Looks()
    text = way(shares, look, tmp_path)
    assert look.largest[-1] == pytest.approx(EXACT.max(axis=1).mean(), abs=0.02)
    assert "rounded answers and those of the top classes" in text


@pytest.mark.parametrize("ending", ["npz", "csv"])
@pytest.mark.parametrize("shares", GIVEN.values(), ids=GIVEN)
def test_files_take_them_and_say_so_and_logits_they_are_not(shares: np.ndarray, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"outputs.{ending}"
    sides = (("member", MEMBER), ("nonmember", ~MEMBER))
    if ending == "npz":
        np.savez(
            path,
            **{f"{m}_{side}_outputs": shares[rows] for m in ("target", "shadow") for side, rows in sides},
            **{f"{m}_{side}_labels": LABELS[rows] for m in ("target", "shadow") for side, rows in sides},
        )
    else:
        with path.open("w", newline="") as opened:
            lines = csv.writer(opened)
            lines.writerow(["model", "member", "label", *(f"p{c}" for c in range(CLASSES))])
            for name in ("target", "shadow"):
                lines.writerows([name, int(m), y, *p] for m, y, p in zip(MEMBER, LABELS, shares, strict=True))
    words = ["membership", "audit", str(path), "--evaluator", "entropy", "--html", str(tmp_path / "a.html")]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "as rounded answers and those of the top classes do" in " ".join(done.output.split())
    assert "as rounded answers and those of the top classes do" in (tmp_path / "a.html").read_text()
    with pytest.raises(UsageError, match="they are probabilities, so leave --logits out"):
        CliRunner().invoke(cli, [*words, "--logits"], catch_exceptions=False)


@pytest.mark.parametrize("shares", [GIVEN["two decimals"], GIVEN["bfloat16"]], ids=["two decimals", "bfloat16"])
def test_one_training_run_is_scored_by_what_the_model_said(shares: np.ndarray, tmp_path: Path) -> None:
    results = {}
    for name, outputs in (("exact", EXACT), ("released", shares)):

        def train(indices: np.ndarray, seed: int, answers: np.ndarray = outputs) -> Released:
            return Released(answers)

        data = (np.arange(ROWS)[:, None], LABELS)
        results[name] = ih.audit_one_run(train=train, data=data, canaries=100, cache=tmp_path / name)
    odds = [result.rows()["score"] for result in results.values()]
    assert np.median(np.abs(odds[0] - odds[1])) < 0.1
    assert "rounded answers" in repr(results["released"])
    assert "rounded answers" not in repr(results["exact"])


def test_a_column_of_negative_zeros_and_one_hot_labels_are_left_as_they_are() -> None:
    labels = np.eye(CLASSES, dtype=np.float32)[LABELS]
    assert (probabilities_of(labels, "outputs")[0] == labels).all()
    exact = EXACT.astype(np.float32)
    assert probabilities_of(exact, "outputs")[0].tobytes() == exact.tobytes()
