"""What the cells of the track compute: trained classifiers, reconstructions, leakage, and who recognises what."""

import numpy as np
import torch
import torch.nn.functional as F

from imharness.data import ImageSet, generator
from imharness.gradients import GradientDefense, ImagePool, ImageProtection
from imharness.tracks import StepContext, StepResult, step
from imharness_reconstruction.classifiers import ClassifierTraining, Schedule, everyday, top1
from imharness_reconstruction.per_image import image_gradients

WEIGHT = "weight."
"""Arrays of a network's state: ``weight.<name>``."""


@step(version="1")
def train(context: StepContext) -> StepResult:
    """Train a target classifier under its defense; tell which held-out images it gets right."""
    defense = context.component("defense")
    return _trained(context, "training", defense)


@step(version="1")
def judge(context: StepContext) -> StepResult:
    """Train the classifier that stands in for people: clean images, spoilt as a person would see through."""
    return _trained(context, "judging", everyday)


@step(version="2")
def reconstruct(context: StepContext) -> StepResult:
    """Share one gradient per private image through the defense, and let the attack rebuild the images from it."""
    images = context.images()
    private, labels = _loaded(context, images)
    network = _network(context, private, "model", "trained")
    guard, targets = context.component("defense"), F.one_hot(labels, _classes(context)).to(private.dtype)
    streams = context.rng(images.names, "defense")
    if isinstance(guard, GradientDefense):
        shared = context.build("defense")(image_gradients(network, private, targets), streams)
    else:
        pool = _pool(context, context.images("training", limited=False))
        shown, mixed = context.build("defense")(private, targets, pool, streams)
        shared = image_gradients(network, shown, mixed)
    shape = (private.shape[1], private.shape[2], private.shape[3])
    rebuilt = context.build("attack")(shared, network, shape, context.rng(images.names, "attack"), context.progress)
    return StepResult(arrays={"images": rebuilt.mul(255).round().byte().cpu().numpy()})


@step(version="1")
def leakage(context: StepContext) -> StepResult:
    """Compare every reconstruction with its private image."""
    images, metric = context.images(), context.build("metric")
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"])

    def score(positions: list[int], private: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": metric(rebuilt[positions].to(private.device).float() / 255, private)}

    found = context.map(images, score)
    closeness = np.full(len(images), context.component("metric").closeness)
    return StepResult(rows={"name": list(images.names), **found, "closeness": closeness})


@step(version="1")
def distribution(context: StepContext) -> StepResult:
    """Compare all reconstructions with all private images by one number."""
    private, _ = _loaded(context, context.images())
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"]).to(context.device).float() / 255
    with torch.no_grad():
        score = context.build("metric")(rebuilt, private)
    return StepResult(rows={"score": [float(score)], "closeness": [context.component("metric").closeness]})


@step(version="1")
def recognise(context: StepContext) -> StepResult:
    """Ask the judge for the class of every reconstruction: is it that of the private image?"""
    images = context.images()
    private, labels = _loaded(context, images)
    network = _network(context, private, "judge", "judge")
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"]).to(context.device).float() / 255
    found, clean = (top1(network, x) == labels for x in (rebuilt, private))
    return StepResult(
        rows={
            "name": list(images.names),
            "recognised": found.cpu().numpy(),
            "recognised_clean": clean.cpu().numpy(),
        }
    )


@step(version="1")
def gallery(context: StepContext) -> StepResult:
    """Keep the first private images for the gallery."""
    images = context.images()
    first = list(range(min(int(context.options["images"]), len(images))))
    pixels = images.load(first).mul(255).round().byte().cpu().numpy()
    return StepResult(rows={"position": first, "name": [images.names[i] for i in first]}, arrays={"images": pixels})


def _trained(context: StepContext, purpose: str, guard) -> StepResult:
    """Train the component "model" on the training images; keep its state and its answers on held-out images."""
    images = context.images(limited=False)
    held_out, labels = _loaded(context, images)
    pool = _pool(context, context.images("training", limited=False))
    options, rng = context.options, context.generator(purpose)
    schedule = Schedule(int(options["epochs"]), int(options["batch_size"]), float(options["learning_rate"]))
    built = context.build("defense") if isinstance(guard, GradientDefense | ImageProtection) else None
    training = ClassifierTraining(_fresh(context, held_out, "model"), pool, schedule, rng, guard, built)
    for number in range(training.steps):
        training.step(number)
        context.progress(number + 1, training.steps)
    state = training.network.state_dict().items()
    return StepResult(
        rows={"name": list(images.names), "right": (top1(training.network, held_out) == labels).cpu().numpy()},
        arrays={WEIGHT + name: tensor.detach().cpu().numpy() for name, tensor in state},
        facts={"training_images": len(pool.images)},
    )


def _network(context: StepContext, images: torch.Tensor, role: str, need: str) -> torch.nn.Module:
    """Return the classifier to attack or to ask: trained in this run where that was planned."""
    network = _fresh(context, images, role)
    if need in context.options:
        found = context.need(need).arrays
        state = {name.removeprefix(WEIGHT): torch.from_numpy(np.array(a)) for name, a in found.items()}
        network.load_state_dict(state)
    return network.eval().requires_grad_(False)


def _fresh(context: StepContext, images: torch.Tensor, role: str) -> torch.nn.Module:
    """Return the network as initialised: the same one in every task of the run, so that defenses are compared on it."""
    label = context.component(role).label
    seed = int(context.rng([label], "initialisation").integers(0, 2**62)[0])
    return context.build(role)(tuple(images.shape[1:]), _classes(context), generator(seed))


def _classes(context: StepContext) -> int:
    role = "training" if "training" in context.roles else "dataset"
    return int(np.asarray(context.images(role, limited=False).columns["label"]).max()) + 1


def _loaded(context: StepContext, images: ImageSet) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.from_numpy(np.array(images.columns["label"])).long()
    return images.load(list(range(len(images)))).to(context.device), labels.to(context.device)


def _pool(context: StepContext, images: ImageSet) -> ImagePool:
    pixels, labels = _loaded(context, images)
    return ImagePool(pixels, F.one_hot(labels, _classes(context)).to(pixels.dtype))
