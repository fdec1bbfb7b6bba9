"""An audit notices members and non-members that were queried, written or prepared in two ways."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests.plugins.membership.test_gate import LIMIT, QUICK, Rows, file_of, model, verdicts
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import imharness as ih
from imharness_membership.audit_inputs import Outputs, read_audit
from imharness_membership.audit_references import KnownReferences
from imharness_membership.doubts import doubts_of_softmax
from imharness_membership.likeness import Likeness, unlike
from imharness_membership.reference_doubts import doubts_of_references
from imharness_membership.source_doubts import doubts_of_forms, doubts_of_inputs, traits_of

Array = np.ndarray
RELEASED: dict[str, Callable[[Array], Array]] = {
    **{f"{d} decimals": (lambda shares, d=d: shares.round(d)) for d in range(1, 7)},
    "half": lambda shares: shares.astype(np.float16),
    "exact": lambda shares: shares,
    "single": lambda shares: shares.astype(np.float32),
    "top 2": lambda shares: np.where(shares >= np.sort(shares, axis=1)[:, -2:-1], shares, 0),
    "top 1": lambda shares: np.eye(shares.shape[1])[shares.argmax(axis=1)],
}


def softmax(logits: Array) -> Array:
    exponentials = np.exp(logits)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def on_side(answers: Rows, inside: bool, change: Callable[[Array], Array]) -> Rows:
    """Return answers whose probabilities are changed on members alone, if `inside`, or on non-members alone."""
    chosen = answers["member"] == inside
    return answers | {
        "probabilities": np.where(chosen[:, None], change(answers["probabilities"]), answers["probabilities"])
    }


@pytest.mark.parametrize("inside", [True, False])
def test_a_softmax_that_was_taken_twice_on_one_side_shows_neither_verdict(inside: bool, tmp_path: Path) -> None:
    """Without the doubt, a model that gives nothing away failed with 1.000."""
    target, shadow = (on_side(model(seed, sure=6.0), inside, softmax) for seed in (1, 2))
    verdict, reasons = verdicts(target, shadow, tmp_path)
    assert verdict == {"not shown"}
    assert f"on {'members' if inside else 'non-members'} alone are what a softmax makes of probabilities" in reasons
    for seed in range(60):
        for sure in (0.3, 6.0):
            answers = model(seed, 25, classes=2, sure=sure)
            assert not list(doubts_of_softmax(Outputs(*(answers[name] for name in answers)), "target"))


def test_answers_of_one_form_are_doubted_by_nobody_and_those_of_two_are() -> None:
    for seed in range(48):
        answers = model(
            seed, (25, 400)[seed % 2], (0, 1, 12, 30)[seed // 2 % 4], (2, 3, 10)[seed % 3], (1, 8)[seed // 24]
        )
        inside, outside = (answers["probabilities"][answers["member"] == side] for side in (True, False))
        for name, released in RELEASED.items():
            assert not list(doubts_of_forms(released(inside), released(outside), "target")), (name, seed)
    for classes in (3, 10):
        answers = model(0, 200, 1.0, classes)
        inside, outside = (answers["probabilities"][answers["member"] == side] for side in (True, False))
        for name in set(RELEASED) - {"exact", "single", "half"}:
            how = "cut to the top classes" if name == "top 2" else "rounded"
            for pair, which in (
                ((RELEASED[name](inside), outside), "members"),
                ((inside.astype(np.float32), RELEASED[name](outside).astype(np.float32)), "non-members"),
            ):
                (line,) = doubts_of_forms(*pair, "target")
                assert line.startswith(f"Answers of the target are {how} on {which} alone"), (name, line)


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_two_forms_are_named_all_ways(ending: str, tmp_path: Path) -> None:
    """Non-members are released as labels alone, which raises a balanced accuracy of .68 to .84."""
    target = on_side(model(1, leak=3.0, sure=1.0), False, RELEASED["top 1"])
    read = read_audit(file_of(target, model(2), tmp_path, ending), logits=False)
    line = "Answers of the target are rounded on non-members alone"
    assert [each[: len(line)] for each in read["target"].doubts] == [line]
    assert not read["shadow"].doubts
    result = ih.audit(target, evaluators=QUICK)
    assert result.worst.accuracy.against(LIMIT) == "fails"
    assert repr(result).count(line) == 1


class Altered(Dataset):
    """Images that a function alters whenever they are read."""

    def __init__(
        self, images: torch.Tensor, labels: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        self.images, self.labels, self.change = images, labels, change

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.change(self.images[row]), self.labels[row]


def pictures(rows: int = 240) -> tuple[torch.Tensor, torch.Tensor]:
    """Smooth pictures of a colour cast, with labels."""
    rng = torch.Generator().manual_seed(0)
    coarse = torch.rand(rows, 3, 4, 4, generator=rng) * torch.tensor([0.9, 0.7, 0.5])[:, None, None]
    return torch.nn.functional.interpolate(coarse, size=16, mode="bilinear"), torch.randint(
        0, 4, (rows,), generator=rng
    )


def network(dropout: float = 0.0) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Flatten(), torch.nn.Linear(768, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)]

    class Always(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x, dropout)

    return torch.nn.Sequential(*layers[:3], *([Always()] if dropout else []), layers[3])


def flipped(image: torch.Tensor) -> torch.Tensor:
    return image.flip(-1) if torch.rand(()) < 0.5 else image


@pytest.mark.parametrize("side", ["members", "non-members"])
def test_a_loader_that_alters_its_inputs_at_random_is_refused(side: str) -> None:
    """With augmentation on both sides, a balanced accuracy of .68 became .52, which passed."""
    images, labels = pictures()
    plain = DataLoader(TensorDataset(images, labels), 32, shuffle=True)
    altered = DataLoader(Altered(images, labels, flipped), 32)
    torch.manual_seed(3)
    with pytest.raises(ih.errors.UsageError, match=f"the loader of {side} alters its inputs at random"):
        ih.audit((network(), *((altered, plain) if side == "members" else (plain, altered))), evaluators=QUICK)


class Named(Dataset):
    """A data set whose rows are addressed by names, not by numbers."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __getitem__(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[int(name[4:])], self.labels[int(name[4:])]


class Streamed(IterableDataset):
    """Rows that come one after the other."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return iter(zip(self.images, self.labels, strict=True))


def test_loaders_whose_rows_have_no_numbers_are_read() -> None:
    images, labels = pictures()
    names = [f"row {number}" for number in range(120)]
    named = DataLoader(Named(images, labels), 32, sampler=names)
    streamed = DataLoader(Streamed(images[120:], labels[120:]), 32)
    assert ih.audit((network(), named, streamed), evaluators=QUICK).details.members == 60


@pytest.mark.parametrize("way", ["loaders", "train", "one run"])
def test_a_model_that_answers_otherwise_when_it_is_asked_again_is_refused(way: str) -> None:
    """Dropout that stays on in evaluation mode turned a balanced accuracy of .68 into .57, which passed."""
    images, labels = pictures()
    loaders = [DataLoader(TensorDataset(images[rows], labels[rows]), 32) for rows in (slice(0, 120), slice(120, 240))]
    asks: dict[str, Callable[[torch.nn.Module], object]] = {
        "loaders": lambda net: ih.audit((net, *loaders), evaluators=QUICK),
        "train": lambda net: ih.audit(
            train=lambda rows, seed: net, data=(images, labels), references=4, progress=False
        ),
        "one run": lambda net: ih.audit_one_run(train=lambda rows, seed: net, data=(images, labels), canaries=100),
    }
    with pytest.raises(ih.errors.UsageError, match="answers the same rows otherwise when it is asked again"):
        asks[way](network(dropout=0.5))
    if way != "train":  # references that are one model are refused
        asks[way](network())


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normalised": lambda images: (images - 0.5) / 0.25,
    "in bytes": lambda images: images * 255,
    "blue first": lambda images: images.flip(1),
    "smoothed": lambda images: torch.nn.functional.avg_pool2d(images, 5, 1, 2, count_include_pad=False),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("side", [True, False])
def test_inputs_that_were_prepared_in_two_ways_show_neither_verdict(change: str, side: bool) -> None:
    """Non-members in bytes, or with blue first, raised a balanced accuracy of .68 to .82."""
    images, labels = pictures()
    member = np.arange(240) < 120
    chosen = torch.as_tensor(member == side)
    mixed = torch.where(chosen[:, None, None, None], CHANGES[change](images), images)
    loaders = [DataLoader(TensorDataset(mixed[rows], labels[rows]), 32) for rows in (slice(0, 120), slice(120, 240))]
    result = ih.audit((network(), *loaders), evaluators=QUICK)
    assert result.worst.accuracy.against(LIMIT) == "not shown"
    assert "Inputs of the target alone tell members from others" in repr(result)
    assert list(doubts_of_inputs(traits_of(mixed), member, "target"))
    whole = [DataLoader(TensorDataset(images[rows], labels[rows]), 32) for rows in (slice(0, 120), slice(120, 240))]
    assert "Inputs of the target" not in repr(ih.audit((network(), *whole), evaluators=QUICK))


def test_inputs_of_one_source_are_doubted_by_nobody() -> None:
    traits, rng = traits_of(pictures(2000)[0]), np.random.default_rng(0)
    for rows in (40, 200, 2000):
        assert not any(
            list(doubts_of_inputs(traits[rng.permutation(2000)[:rows]], np.arange(rows) < rows // 2, "target"))
            for _ in range(300)
        )


def answers_of(seed: int, rows: int = 600, count: int = 8) -> tuple[Array, Array, KnownReferences]:
    """Return log odds and membership of a target, and references to which the same rows are hard."""
    rng = np.random.default_rng(seed)
    hard, inside, member = rng.normal(size=rows), rng.random((count, rows)) < 0.5, np.arange(rows) < rows // 2
    odds = hard + rng.normal(size=(count, rows)) + 2.0 * inside
    return hard + rng.normal(size=rows) + 2.0 * member, member, KnownReferences(odds.astype(np.float32), inside)


def test_reference_models_tell_which_of_them_is_of_other_rows_and_whether_others_are_harder() -> None:
    for seed in range(100):
        assert not list(doubts_of_references(*answers_of(seed, (40, 600)[seed % 2], (4, 8)[seed // 2 % 2])))
    target, member, references = answers_of(0)
    for some, more in (([3], ""), ([0, 1, 2, 3], " and 3 more")):
        odds = references.log_odds.copy()
        odds[some] = np.roll(odds[some], 1, axis=1)
        (line,) = doubts_of_references(target, member, KnownReferences(odds, references.member))
        assert f"not with reference {some[0]} (" in line
        assert f"){more}. Are its answers in the order" in line
    harder = 1.5 * ~member
    (line,) = doubts_of_references(
        target - harder, member, KnownReferences(references.log_odds - harder.astype(np.float32), references.member)
    )
    assert "trained on neither tell the target's members from its non-members" in line


def test_a_gap_between_members_and_others_that_is_far_smaller_than_a_shadows_is_doubted() -> None:
    """Flags in another order passed with .493: accuracies were .60 on both sides, and .79 and .41 of the shadow."""

    def accuracies(members: float, others: float) -> list[Likeness]:
        pairs = (("members", members, 0.79), ("non-members", others, 0.41))
        return [
            Likeness("shadow model", f"accuracy on {side}", ours, theirs, abs(ours - theirs) > 0.03)
            for side, ours, theirs in pairs
        ]

    assert len(unlike(accuracies(0.60, 0.60))) == 2
    assert not unlike(accuracies(0.70, 0.42))
    assert not unlike(accuracies(0.60, 0.22))  # both harder: another training
    assert len(unlike(accuracies(0.50, 0.42))) == 1


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    """A note says that weights and groups of rows are ignored, and that intervals count rows as independent."""
    path = file_of(model(1), model(2), tmp_path, "csv")
    table = pd.read_csv(path)
    assert not read_audit(path, logits=False)["target"].notes
    assert "not read" not in repr(ih.audit(table, evaluators=QUICK))
    table["weight"], table["person"] = 1.0, table.index // 4
    table.to_csv(path, index=False)
    line = "not read are the columns 'weight', 'person'; each row counts once, and as independent."
    assert all(line in outputs.notes[0] for outputs in read_audit(path, logits=False).values())
    assert line in " ".join(repr(ih.audit(table, evaluators=QUICK)).split())
