"""Estimates the cost of the track's tasks before a run: their rows, bytes, and the operations of networks.

Operations of a network are those of one pass over one image of 384x512 px, the size of KonIQ-10k and KADID-10k: two for
each multiplication with its addition, counted by torch's `FlopCounterMode` on the published architecture. A gradient
counts as three passes: an H100 took 2.2 to 4.3 times as long as for a pass. Networks of which the time was measured
count by that time (`MEASURED`). Filters, codecs and searches on the CPU are not counted.
"""

from typing import NamedTuple

from imharness.tracks import TaskSpec, Workload
from imharness_iqa.calibration import TARGETS, VALUES

GIGA = 1e9
GRADIENT = 3
"""The cost of a gradient in forward passes: the pass itself, and two for the way back."""
LINE_SEARCH = 20
"""The most evaluations that torch makes in one step of L-BFGS."""
METRICS = {
    "koncept512": 59.4, "linearity": 128.6, "meta-iqa": 14.2, "spaq": 98.0, "fpr": 42.0, "cnniqa": 2.0,
    "maniqa": 302.8, "topiq": 40.0, "clip-iqa-plus": 48.8, "paq2piq": 14.2,
    "arniqa": 40.0, "liqe": 131.0, "qualiclip": 46.0,
    "lpips": 61.0, "dists": 481.5, "ssim-uniform7": 0.1, "mse": 0.001, "mae": 0.001,
}  # fmt: skip
"""Giga operations of quality metrics. TOPIQ and those from PAQ-2-PIQ to QualiCLIP come from another package, and their
numbers are estimates from their backbones: TOPIQ uses a ResNet-50, PAQ-2-PIQ a ResNet-18, ARNIQA a ResNet-50 on the
image and on one of half its size, LIQE a ViT-B/32 on 15 patches of 224 px (8.7 each), QualiCLIP CLIP's ResNet-50. The
last five compare an image with its reference."""
OTHER_METRIC = 60.0
"""Giga operations assumed for a metric that has not been counted."""
DENOISER, DIFFUSION = 653.7, 2239.7
DEFENSES = {"disco": 614.6, "fcn": 4.5, "real-esrgan": 477.0, "mprnet": 3437.4}
"""Giga operations of purifications by a network."""
HELPERS = {"zhang-dists": 481.5, "zhang-lpips": 61.0, "cadv": 454.5}
"""Giga operations of networks that an attack uses besides the metric."""


IMAGE = 3 * 384 * 512
"""The values of an image. Attacked ones are stored with 8 bits, purified ones as float32 compressed to nine tenths."""
PER_ROW = 200
"""Bytes of a row, measured on the demo leaderboard: 40 to 330."""


class Cost(NamedTuple):
    """What a network costs for an image: a pass, and a gradient.

    Both are in giga operations of the GPU for which plans state hours, see `GIGA_A_MS`.
    """

    forward: float
    gradient: float

    def __add__(self, other: "Cost") -> "Cost":  # type: ignore[override]
        return Cost(self.forward + other.forward, self.gradient + other.gradient)

    def times(self, number: float) -> "Cost":
        """Return the cost of so many passes or gradients."""
        return Cost(self.forward * number, self.gradient * number)


NOTHING = Cost(0.0, 0.0)
GIGA_A_MS = 20.0
"""Giga operations of that GPU in a millisecond."""


class Times(NamedTuple):
    """How long a network took for an image of 384x512 px, ms.

    A pass and a gradient in float32, and both with factors rounded to 10 bits (TF32).
    """

    forward: float
    gradient: float
    rounded_forward: float
    rounded_gradient: float


MEASURED = {
    "koncept512": Times(3.23, 7.16, 1.01, 2.89),
    "linearity": Times(6.10, 17.23, 1.76, 5.46),
    "fcn": Times(0.96, 1.95, 0.42, 1.09),
    "disco": Times(25.1, 79.7, 10.4, 17.0),
    "real-esrgan": Times(19.4, 55.1, 6.25, 14.8),
    "mprnet": Times(165.2, 702.5, 38.9, 83.5),
    "diffpure": Times(121.4, 332.7, 24.6, 72.4),
}
"""What an H100 (80 GB, HBM3; torch 2.11) took. DiffPure's times are of one step, which its gradient computes again."""
FASTER = 3.0
"""How many times as fast TF32 makes networks that were not measured; it was 2.5 to 8.4 times for those that were."""


def cost_of(name: str, giga: float, rounded: bool = False) -> Cost:
    """Return the cost of a network: from its time if it was measured, else from its giga operations.

    `rounded`: whether factors are rounded to 10 bits (TF32).
    """
    if name in MEASURED:
        times = MEASURED[name]
        measured = (times.rounded_forward, times.rounded_gradient) if rounded else (times.forward, times.gradient)
        return Cost(*measured).times(GIGA_A_MS)
    return Cost(giga, GRADIENT * giga).times(1 / FASTER if rounded else 1)


def workload_of(spec: TaskSpec, units: int) -> Workload | None:
    """Return rows, operations and bytes of a task on `units` images; None where a data set's size is not published."""
    if not units:
        return None
    workload = _computed(spec, units)
    images = {"attack": 1.0, "attack_compared": 1.0, "purify": 0.9 * 4}.get(spec.step, 0.0)
    rows = 7 if spec.step in ("transfer", "transfer_metrics") else PER_ROW
    return Workload(workload.rows, workload.operations, rows * workload.rows + images * IMAGE * units)


def _computed(spec: TaskSpec, units: int) -> Workload:
    """Return rows and operations of a task."""
    rounded = spec.options.get("precision") == "tf32"
    metric, defense = _metric(spec), _defense(spec)
    image_count = int(spec.options.get("images", units))
    if spec.step in ("attack", "attack_compared"):
        return Workload(units, units * _attacked(spec, rounded))
    if spec.step == "calibrate":
        return Workload(len(TARGETS["linf"]), VALUES * units * _attacked(spec, rounded))
    if spec.step == "fit":
        fields = spec.components["attack"].parameters
        images, through = min(int(spec.options["fit_images"]), units), _through(spec, rounded)
        passes = int(fields["epochs"]) * through.gradient if "epochs" in fields else through.forward
        return Workload(0, GIGA * images * passes)
    if spec.step == "transfer":
        references = [ref for role, ref in spec.components.items() if role.startswith("shown.")]
        return Workload(
            len(references) * units, GIGA * units * sum((metric + _purified(ref)).forward for ref in references)
        )
    if spec.step == "transfer_metrics":
        judges = [ref for role, ref in spec.components.items() if role.startswith("judges.")]
        return Workload(len(judges) * units, GIGA * units * sum(_cost(ref).forward for ref in judges))
    if spec.step in ("smooth", "smooth_compared"):
        fields = spec.components["defense"].parameters
        copies = int(fields["selection"]) + int(fields["samples"])
        return Workload(0, GIGA * min(image_count, units) * copies * (metric.forward + _denoised(spec)))
    passes = {
        "clean": metric,
        "graded": metric,
        "purify": defense,
        "defended": metric + defense,
        "evaluate": metric + defense,
    }
    passes["evaluate_compared"] = metric.times(3) + defense
    if spec.step in passes:
        return Workload(units, GIGA * units * passes[spec.step].forward)
    return Workload(min(image_count, units), GIGA * min(image_count, units) * (metric + defense).forward)


def _name(id: str) -> str:
    return id.partition("/")[2]


def _metric(spec: TaskSpec, rounded: bool = False) -> Cost:
    if "metric" not in spec.components:
        return NOTHING
    return _cost(spec.components["metric"], rounded)


def _cost(metric, rounded: bool = False) -> Cost:  # a ComponentRef
    name = str(metric.parameters["name"]) if _name(metric.id).startswith("pyiqa") else _name(metric.id)
    return cost_of(name, METRICS.get(name, OTHER_METRIC), rounded)


def _defense(spec: TaskSpec, rounded: bool = False) -> Cost:
    return _purified(spec.components["defense"], rounded) if "defense" in spec.components else NOTHING


def _purified(defense, rounded: bool = False) -> Cost:  # a ComponentRef
    name = _name(defense.id)
    if name not in DEFENSES and name != "diffpure":
        return NOTHING
    steps = int(defense.parameters["steps"]) if name == "diffpure" else 1
    return cost_of(name, DEFENSES.get(name, 0.0), rounded).times(steps)


def _through(spec: TaskSpec, rounded: bool) -> Cost:
    """Return the cost of one score or gradient that an attack asks for.

    It is that of the metric, and, if the attack knows the defense, of all draws of the defense.
    """
    if not spec.options["adaptive"]:
        return _metric(spec, rounded)
    return _metric(spec, rounded) + _defense(spec, rounded).times(int(spec.options["samples"]))


def _denoised(spec: TaskSpec) -> float:
    """Return the giga operations of a certified defense before the metric: 0, a denoiser's, or those of diffusion."""
    component = spec.components["defense"]
    steps = int(component.parameters.get("steps", 1)) * int(component.parameters.get("votes", 1))
    return {"drs": DENOISER, "dms": DENOISER, "ddrs": DIFFUSION, "dp": DIFFUSION * steps}.get(_name(component.id), 0.0)


def _attacked(spec: TaskSpec, rounded: bool) -> float:
    """Return the operations of an attack on one image: the number of scores or gradients, times the cost of each."""
    component = spec.components["attack"]
    fields, name = component.parameters, _name(component.id)
    through = _through(spec, rounded)
    if name in ("uap", "facpa"):  # trained in the step `fit`
        return 0.0
    if "queries" in fields:
        return GIGA * through.forward * int(fields["queries"])
    if "population" in fields:
        return GIGA * through.forward * int(fields["population"]) * (int(fields["generations"]) + 1)
    if "pairs" in fields:
        return GIGA * through.forward * 2 * int(fields["pairs"]) * int(fields["steps"])
    steps = int(fields["steps"] if "steps" in fields else fields["iterations"])
    gradient = through.gradient + cost_of("", HELPERS.get(name, 0.0), rounded).gradient
    return GIGA * gradient * steps * (LINE_SEARCH if name == "stadv" else 1)
