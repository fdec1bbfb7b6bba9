"""Estimates the cost of the track's tasks before a run: their rows, and the operations of networks.

A training step counts as three passes over each image; a step of an attack as six, since it takes the gradient of a
gradient. Metrics are small beside them and are not counted.
"""

from imharness.tracks import TaskSpec, Workload

PASS = {"resnet20": 0.08e9, "resnet50": 2.6e9, "resnet152": 7.4e9, "densenet121": 1.78e9, "convnet8": 0.08e9,
        "resnet18": 1.1e9, "lenet": 0.002e9, "pixel-mlp": 0.003e9, "tiny-vit": 0.02e9}  # fmt: skip
"""Operations of one pass over one image of 32x32 px, with the stem for it, counted by torch's `FlopCounterMode`."""
SIDE = 32
"""The side of most images, px."""
TRAINING = {
    "cifar100-images": 50_000,
    "imagenette": 9_469,
    "caltech101": 8_940,
    "stanford-dogs": 20_340,
    "celeba": 2_000,
}
"""Images that are trained on; of CelebA about twenty for each of a hundred people."""
TRAIN, INVERT = 3, 6
PER_ROW = 50
"""Bytes of a row; a rebuilt image, with 8 bits, has as many more as values."""


def workload_of(spec: TaskSpec, units: int, example_count: int) -> Workload | None:
    """Return rows and operations of a task on `units` private images; None where their number is not published."""
    if not units:
        return None
    if spec.step == "gallery":
        return Workload(min(example_count, units), 0.0)
    if spec.step == "distribution":
        return Workload(1, 0.0)
    if spec.step in ("train", "judge"):
        seen = TRAINING.get(spec.components["dataset"].id.partition("/")[2], units)
        return Workload(units, float(int(spec.options["epochs"]) * seen * TRAIN * _pass(spec)))
    if spec.step == "reconstruct":
        fields = spec.components["attack"].parameters
        steps = int(fields.get("steps", fields.get("iterations", 1))) * int(fields.get("epochs", 1))
        operations = float(units * steps * int(fields.get("starts", 1)) * INVERT * _pass(spec))
        return Workload(units, operations, float(units * (2 * PER_ROW + 3 * SIDE**2)))
    return Workload(units, 0.0, float(units * PER_ROW))


def _pass(spec: TaskSpec) -> float:
    """Return the operations of one pass over one image through the model of a task."""
    model = spec.components["model"]
    name = model.id.partition("/")[2]
    if name == "deep-resnet":
        name = f"resnet{model.parameters['layers']}"
    return PASS.get(name, PASS["resnet18"])
