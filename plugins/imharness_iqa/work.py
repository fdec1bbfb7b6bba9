"""Estimates the cost of the track's cells before a run: their rows, and the operations of networks.

Operations of a network are those of one pass over one image of 384x512 px, the size of KonIQ-10k and KADID-10k: two for
each multiplication with its addition, counted by torch's `FlopCounterMode` on the published architecture. A gradient
counts as three passes. Filters, codecs and searches of attacks on the CPU are not counted.
"""

from imharness.tracks import TaskSpec, Work
from imharness_iqa.calibration import TARGETS, VALUES

GIGA = 1e9
GRADIENT = 3
"""The cost of a gradient in forward passes: one forward, and two for the backward pass."""
LINE_SEARCH = 20
"""The most evaluations that torch makes in one step of L-BFGS."""
METRICS = {
    "koncept512": 59.4, "linearity": 128.6, "meta-iqa": 14.2, "spaq": 98.0, "fpr": 42.0, "cnniqa": 2.0,
    "maniqa": 217.0, "topiq": 40.0, "clip-iqa-plus": 16.0, "paq2piq": 14.2,
    "arniqa": 40.0, "liqe": 131.0, "qualiclip": 46.0,
    "lpips": 61.0, "dists": 481.5, "ssim-uniform7": 0.1, "mse": 0.001, "mae": 0.001,
}  # fmt: skip
"""Giga operations of quality metrics. Those from MANIQA to QualiCLIP come from another package, and their numbers are
estimates from their backbones: MANIQA is a ViT-B/8 on 224 px, TOPIQ and CLIP-IQA+ use a ResNet-50, PAQ-2-PIQ a
ResNet-18, ARNIQA a ResNet-50 on the image and on one of half its size, LIQE a ViT-B/32 on 15 patches of 224 px (8.7
each), QualiCLIP CLIP's ResNet-50. The last five compare an image with its reference."""
OTHER_METRIC = 60.0
"""Giga operations assumed for a metric that has not been counted."""
DENOISER, DIFFUSION = 653.7, 2239.7
DEFENSES = {"disco": 614.6, "fcn": 4.5, "real-esrgan": 477.0, "mprnet": 3528.0}
"""Giga operations of purifications by a network. MPRNet's: 588 giga multiplications at 256x256 px (Chen et al., "Simple
Baselines for Image Restoration", ECCV 2022, table 6)."""
HELPERS = {"zhang-dists": 481.5, "zhang-lpips": 61.0, "cadv": 454.5}
"""Giga operations of networks that an attack uses besides the metric."""


def work(spec: TaskSpec, units: int) -> Work | None:
    """Return rows and operations of a task on `units` images; None where the data set's size is not published."""
    if not units:
        return None
    metric = _metric(spec)
    defense = _defense(spec)
    asked = int(spec.options.get("images", units))
    if spec.step in ("attack", "attack_compared"):
        return Work(units, units * _attacked(spec, metric, defense))
    if spec.step == "calibrate":
        return Work(len(TARGETS["linf"]), VALUES * units * _attacked(spec, metric, 0.0))
    if spec.step == "fit":
        fields = spec.components["attack"].parameters
        images = min(int(spec.options["fit_images"]), units)
        through = (defense if spec.options["adaptive"] else 0.0) * int(spec.options["samples"])
        return Work(0, GIGA * images * int(fields["epochs"]) * GRADIENT * (metric + through))
    if spec.step == "transfer":
        shown = [ref for role, ref in spec.components.items() if role.startswith("shown.")]
        return Work(len(shown) * units, GIGA * units * sum(metric + _purified(ref) for ref in shown))
    if spec.step in ("smooth", "smooth_compared"):
        fields = spec.components["defense"].parameters
        copies = int(fields["selection"]) + int(fields["samples"])
        return Work(0, GIGA * min(asked, units) * copies * (metric + _denoised(spec)))
    passes = {"clean": metric, "purify": defense, "defended": metric + defense, "evaluate": metric + defense}
    passes["evaluate_compared"] = 3 * metric + defense
    if spec.step in passes:
        return Work(units, GIGA * units * passes[spec.step])
    return Work(min(asked, units), GIGA * min(asked, units) * (metric + defense))


def _name(id: str) -> str:
    return id.partition("/")[2]


def _metric(spec: TaskSpec) -> float:
    if "metric" not in spec.components:
        return 0.0
    metric = spec.components["metric"]
    name = str(metric.parameters["name"]) if _name(metric.id).startswith("pyiqa") else _name(metric.id)
    return METRICS.get(name, OTHER_METRIC)


def _defense(spec: TaskSpec) -> float:
    return _purified(spec.components["defense"]) if "defense" in spec.components else 0.0


def _purified(defense) -> float:  # a ComponentRef
    name = _name(defense.id)
    return DIFFUSION * int(defense.parameters["steps"]) if name == "diffpure" else DEFENSES.get(name, 0.0)


def _denoised(spec: TaskSpec) -> float:
    """Return the operations of a certified defense before the metric: none, a denoiser's, or steps of diffusion."""
    component = spec.components["defense"]
    steps = int(component.parameters.get("steps", 1)) * int(component.parameters.get("votes", 1))
    return {"drs": DENOISER, "dms": DENOISER, "ddrs": DIFFUSION, "dp": DIFFUSION * steps}.get(_name(component.id), 0.0)


def _attacked(spec: TaskSpec, metric: float, defense: float) -> float:
    """Return the operations for one image: the number of scores or gradients, times the cost of each."""
    component = spec.components["attack"]
    fields, name = component.parameters, _name(component.id)
    through = metric + (defense * int(spec.options["samples"]) if spec.options["adaptive"] else 0.0)
    if name in ("uap", "facpa"):  # trained in the step `fit`
        return 0.0
    if "queries" in fields:
        return GIGA * through * int(fields["queries"])
    if "population" in fields:
        return GIGA * through * int(fields["population"]) * (int(fields["generations"]) + 1)
    if "pairs" in fields:
        return GIGA * through * 2 * int(fields["pairs"]) * int(fields["steps"])
    steps = int(fields["steps"] if "steps" in fields else fields["iterations"])
    return GIGA * (through + HELPERS.get(name, 0.0)) * GRADIENT * steps * (LINE_SEARCH if name == "stadv" else 1)
