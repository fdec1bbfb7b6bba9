"""One training of a defense of the leaderboard with canaries that coins put into its training set or leave out."""

from pathlib import Path

import numpy as np
import torch

from imharness.data import derive_seed, fresh_numerics, generator
from imharness.errors import UsageError
from imharness.files import read_arrays, read_columns
from imharness.membership import MembershipTraining, Progress, TrainingData, TrainingPlan
from imharness_membership.likelihood import log_odds
from imharness_membership.reference_models import EMBEDDED
from imharness_membership.track import MembershipTrack

Array = np.ndarray


def read_canaries(path: Path) -> tuple[Array, Array]:
    """Return scores float64 ``(m,)`` and coins bool ``(m,)`` of a file; raises `UsageError` that names it."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    if path.suffix == ".npz":
        read = read_arrays(path, ["scores", "included"])
        scores, included = read["scores"], read["included"]
    elif path.suffix in (".csv", ".parquet", ".pq"):
        table = read_columns(path)
        for name in ("scores", "included"):
            if name not in table.columns:
                raise UsageError(f"{path} has no column {name}; it has: {', '.join(map(repr, table.columns[:20]))}.")
        scores, included = table.numbers("scores"), table.numbers("included")
    else:
        raise UsageError(f"{path}: the ending must be .npz, .csv or .parquet.")
    if scores.ndim != 1 or included.shape != scores.shape or not np.isfinite(scores).all():
        raise UsageError(f"{path}: scores and included must be finite numbers of one shape (m,).")
    if not np.isin(included, (0, 1)).all():
        raise UsageError(f"{path}: included must hold 0 and 1.")
    return scores.astype(np.float64), included.astype(bool)


@fresh_numerics()
def leaderboard_run(
    defense: str, dataset: str, model: str, canaries: int, seed: int, progress: Progress
) -> tuple[Array, Array, tuple[float, float] | None]:
    """Train a defense once, as the embedded profile does; return scores, coins, and the (epsilon, delta) it promises.

    Canaries are rows with wrong labels; each is in the training set if its own fair coin says so. A random half of
    the other rows is always trained on, and the rest is the defender's. A canary's score is the log odds of its wrong
    label; scores float64 and coins bool are ``(canaries,)``.
    """
    from imharness.commands import find

    training = find("defense", defense)
    if not isinstance(training, MembershipTraining):
        raise UsageError(f"--defense: {training.label} does not train a model.")
    training.require()
    device = torch.device("cpu")
    table = find("dataset", dataset).build(device)
    network = find("model", model)
    make = network.with_parameters(**EMBEDDED["parameters"].get(network.info.id, {})).build(device)
    n = len(table.labels)
    if canaries > n - 2:
        raise UsageError(f"--mislabelled: {dataset} has {n} rows; at most {n - 2} of them can be canaries.")
    rows, coins, labels = _canaries(table.labels, table.classes, canaries, seed)
    drawn = torch.randperm(n, generator=generator(derive_seed("halves", seed)))
    always, reference = drawn[~torch.isin(drawn, rows)].chunk(2)
    member = torch.cat([always, rows[coins]])
    data = TrainingData(table.features[member], labels[member], table.features[reference], labels[reference])
    options = MembershipTrack().with_parameters(**EMBEDDED["options"])
    plan = TrainingPlan(options.epochs, options.batch_size, options.learning_rate, options.optimiser)
    start = make(tuple(table.features.shape[1:]), table.classes, generator(derive_seed("start", seed)))
    trained = training.build(device)(start, data, plan, generator(derive_seed("order", seed)), progress)
    with torch.no_grad():
        outputs = trained(table.features[rows]).softmax(dim=1)
    scores = log_odds(outputs, labels[rows]).double().numpy()
    return scores, coins.numpy(), training.promises(plan, len(member))


def _canaries(
    labels: torch.Tensor, classes: int, count: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the canaries' rows, their coins, and all labels with those of the canaries changed."""
    rng = generator(derive_seed("canaries", seed))
    rows = torch.randperm(len(labels), generator=rng)[:count]
    shift = torch.randint(1, classes, (count,), generator=rng)
    coins = torch.rand(count, generator=generator(derive_seed("coins", seed))) < 0.5
    wrong = labels.clone()
    wrong[rows] = (labels[rows] + shift) % classes
    return rows, coins, wrong
