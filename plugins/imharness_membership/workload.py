"""Estimates the cost of the track's tasks before a run: their rows, and the operations of networks.

A training step counts as three passes, and a pass as two operations for each weight and row. A trained model is then
asked about the target's rows, all their views, and the adversary's rows. Convolutions on images of 32 px do not use a
GPU fully, so a measured factor is applied. Evaluators, MemGuard's search and noise on the CPU are not counted.
"""

from itertools import pairwise

from imharness.tracks import TaskSpec, Workload
from imharness_membership.models.wrn import CHANNELS, GROUPS
from imharness_membership.splits import part_of

FEATURES = {"location30": (446, 30), "purchase100": (600, 100), "texas100": (6_169, 100), "mnist": (784, 10)}
"""The numbers of features and classes of published tables."""
IMAGES = {
    "densenet-bc[depth=100,growth=12]": 0.576e9,
    "densenet-bc": 18.6e9,
    "alexnet": 0.03e9,
    "vgg19": 0.796e9,
    "fine-tuned-resnet50": 8.18e9,
    "resnet18": 1.11e9,
    "densenet121": 1.78e9,
    "cnn": 0.0443e9,
}
"""The operations of one pass over one image, by the first of these that a model's label has.

Images have 32x32 px, but 64x64 px with one colour for `cnn`, as in CH-MNIST, and 224x224 px where a network is
fine-tuned.
"""
CLASSES = {"cifar100": 100, **{name: classes for name, (_, classes) in FEATURES.items()}}
"""The numbers of classes, 10 where none stands here: each row of outputs has as many numbers of 4 bytes."""
ROWS = ("evaluate", "calibrated", "unseen", "train", "outsider", "stop", "release")
"""The steps that write a row of results for each of a model's rows."""
GUESS = 10
"""Bytes of a guess in a store, measured on the demo leaderboard."""
PASSES = 3
"""The cost of a training step in passes."""
SMALL, ROUNDED = 1.7, 0.8
"""The time of a training step with 256 images on WRN-28-2 on an H100, divided by the time of its operations at 20
TFLOP/s: in float32, and in tf32. Measured by ``python -m benchmarks memory --device cuda``."""


def workload_of(spec: TaskSpec, units: int, subset_size: int) -> Workload | None:
    """Return rows and operations of a task; None where the table's size is not published.

    `units`: rows of the table; `subset_size`: rows that train a model, 0: a sixth of them.
    """
    if not units:
        return None
    options, role = spec.options, spec.options.get("role")
    subset_size = part_of(units, subset_size)
    shadow = int(options.get("shadow_part", 0)) or subset_size
    role_size = shadow if role == "shadow" else subset_size
    further = 0 if role == "shadow" else int(options.get("further", 0))
    rows = 2 * role_size + further if spec.step in ROWS else 0
    for step, name in (("sensitivity", "rows"), ("canary", "canaries"), ("by_epoch", "points")):
        rows = int(options[name]) if spec.step == step else rows
    several = int(options.get("models", 0))
    trained = {
        "train": 1,
        "by_epoch": 2,
        "outsider": 1,
        "canary": 1,
        "references": several,
        "sensitivity": rows,
    }.get(spec.step, 0)
    queried_models = {
        "train": 1,
        "outsider": 1,
        "stop": 1,
        "release": 1,
        "references": several,
        "release_references": several,
    }.get(spec.step, 0)
    target_rows = 2 * subset_size + further
    answers = 2 * role_size if role == "shadow" else target_rows * int(options.get("queries", 1)) + 2 * shadow
    passes = trained * int(options.get("epochs", 0)) * role_size * PASSES + queried_models * answers
    speed = ROUNDED if options.get("precision") == "tf32" else SMALL
    slower = 1.0 if "hidden" in spec.components["model"].parameters else speed
    return Workload(rows, float(passes * _pass(spec) * slower), _size(spec, rows))


def _size(spec: TaskSpec, rows: int) -> float:
    """Return the bytes of rows, of outputs, and of the answers of reference models to each view of a row."""
    name = spec.components["dataset"].id.partition("/")[2]
    outputs = 4 * CLASSES.get(name, 10) if spec.step in ("train", "outsider", "stop", "release") else 0
    subset_size, views = int(spec.options.get("part", 0)), int(spec.options.get("queries", 1))
    answers = 4 * int(spec.options.get("models", 0)) * subset_size * (1 + 2 * views) if "references" in spec.step else 0
    return float(rows * (GUESS + outputs) + answers)


def _pass(spec: TaskSpec) -> float:
    """Return the operations of one pass over one row."""
    model, name = spec.components["model"], spec.components["dataset"].id.partition("/")[2]
    if {"depth", "width"} <= model.parameters.keys():
        return wide_residual(int(model.parameters["depth"]), int(model.parameters["width"]))
    if "hidden" in model.parameters:
        first, last = FEATURES.get(name, (3_072, 100))
        return 2.0 * sum(a * b for a, b in pairwise((first, *model.parameters["hidden"], last)))
    return next((cost for kind, cost in IMAGES.items() if kind in model.label), 0.4e9)


def wide_residual(depth: int, width: int) -> float:
    """Return the operations of a wide residual network on an image of 32x32 px, those of its convolutions."""
    inside, side = CHANNELS[0], 32
    weights = 9.0 * 3 * inside * side**2
    for group, channels in enumerate(CHANNELS):
        outside, side = channels * width, 32 >> group
        for _ in range((depth - 4) // (2 * GROUPS)):
            changes = inside != outside
            weights += (9 * (inside + outside) + inside * changes) * outside * side**2
            inside = outside
    return 2 * weights
