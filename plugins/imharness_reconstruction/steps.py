"""The steps of the track: trained classifiers, reconstructions, leakage and recognition."""

from dataclasses import fields

import numpy as np
import torch
import torch.nn.functional as F

from imharness.data import ImageSet, generator
from imharness.gradients import GradientDefense, Gradients, ImagePool, ImageProtection
from imharness.tracks import StepContext, StepResult, step
from imharness_reconstruction.classifiers import ClassifierTraining, Schedule, everyday, top1
from imharness_reconstruction.convergence import Shared, matching
from imharness_reconstruction.federated_step import attacked_round
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import averaged, batch_weights, image_gradients
from imharness_reconstruction.threats import of_one, update_of
from imharness_reconstruction.undoing import PROBES, undone
from imharness_reconstruction.units import joined

WEIGHT = "weight."
"""The prefix of the arrays of a network's state: ``weight.<name>``."""


@step(version="2", doing="training {model} with {defense}")
def train(context: StepContext) -> StepResult:
    """Train a target classifier under its defense, and record which held-out images it classifies right."""
    defense = context.component("defense")
    return _trained(context, "training", defense)


@step(version="2", doing="training the classifier that recognises images")
def judge(context: StepContext) -> StepResult:
    """Train the classifier that stands in for people, on clean images degraded in ways that people see through."""
    return _trained(context, "judging", everyday)


@step(version="11", shared=True, doing="rebuilding {count}images with {attack}[ from gradients with {defense}]")
def reconstruct(context: StepContext) -> StepResult:
    """Share gradients through the defense, and let the attack rebuild the private images from them.

    A gradient is averaged over its batch before it is defended, and every batch meets the defense with noise of its
    own. If a defense changes each coordinate by itself, in a way that everybody who has it can undo, that is undone
    first. The rows say how well each reconstruction explains the shared gradient, and whether the attack converged. If
    nothing was pruned, an attack on all coordinates equals the one on surviving coordinates, whose result is taken.
    With the option `at_once`, that many images at a time share their gradients and are rebuilt, because the gradients
    of a large network for all images do not fit into memory; each image keeps its streams of random numbers.
    An attack with a round of federated learning meets participants of successive images, see `attacked_round`.
    """
    images, attack = _private(context), context.build("attack")
    at_once = int(context.options.get("at_once", 0)) or len(images)
    network = _network(context, _loaded(context, images.first(1))[0], "model", "trained")

    def share(start: int, stop: int) -> tuple[ImageSet, torch.Tensor, Shared]:
        batch = images.at(range(start, stop))
        private, labels = _loaded(context, batch)
        return batch, private, _share_gradients(context, network, batch, private, labels)

    if "aware" in context.options:
        _, _, first_shared = share(0, min(at_once, len(images)))
        if survivors(first_shared.gradients) is None:  # nothing was pruned
            same = context.need("aware")
            return StepResult(rows=same.rows, arrays=same.arrays)

    component = context.component("attack")
    federated = component.round()

    def rebuild(start: int, stop: int) -> dict[str, np.ndarray]:
        if federated is not None:
            batch = images.at(range(start, stop))
            private, labels = _loaded(context, batch)
            targets = F.one_hot(labels, _classes(context)).to(private.dtype)

            def read(model: torch.nn.Module, gradients: Gradients) -> Gradients:
                return _read_by_insider(context, model, gradients, private)

            return attacked_round(context, federated, network, attack, batch.names, private, targets, read)
        batch, private, received = share(start, stop)
        shape = (private.shape[1], private.shape[2], private.shape[3])
        rebuilt = attack(received.gradients, network, shape, context.rng(batch.names, "attack"), context.progress)
        fit = matching(network, received, rebuilt)
        if component.closed_form:
            fit["converged"] = torch.ones_like(fit["converged"])
        columns = {name: values.cpu().numpy() for name, values in fit.items()}
        return {**columns, "images": rebuilt.mul(255).round().byte().cpu().numpy()}

    if federated is not None:  # all images of a participant stay in one chunk
        at_once = max(at_once // federated.images, 1) * federated.images
    columns = context.chunks(len(images), at_once, rebuild)
    trained = "trained" in context.options or context.component("model").trained
    state = "trained" if trained else "as initialised"
    pictures, sources = columns.pop("images"), joined(_sources(images), federated.images if federated else 1)
    facts = {"state": state} | (
        {} if of_one(component) else {"threat": component.threat, "shared": update_of(component)}
    )
    about = {name: [text] * len(images) for name, text in facts.items()}
    return StepResult(
        rows={"name": list(images.names), "source": sources, **about, **columns},
        arrays={"images": pictures},
    )


def _share_gradients(
    context: StepContext, network: torch.nn.Module, images: ImageSet, private: torch.Tensor, labels: torch.Tensor
) -> Shared:
    """Return the defended gradients of the attack's batches.

    `private`: the images ``(N, C, H, W)``; `labels`: ``(N,)``. A gradient defense gets the mean gradient of each batch.
    An image defense gets the images, once for each batch that an image is in, and the gradients of what it returns are
    averaged. The names of the batches and images seed the random numbers of the defense.
    """
    batches = context.component("attack").batches(len(images))
    alone = batches == [[i] for i in range(len(images))]
    targets = F.one_hot(labels, _classes(context)).to(private.dtype)
    if isinstance(context.component("defense"), GradientDefense):
        if alone:
            names = images.names
        else:
            names = [f"{number}: {' '.join(images.names[i] for i in batch)}" for number, batch in enumerate(batches)]
        origin, mean = torch.arange(len(images)), batch_weights(batches, len(images)).to(private.device)
        gradients = averaged(image_gradients(network, private, targets), mean)
        gradients = _read_by_insider(
            context, network, context.build("defense")(gradients, context.rng(names, "defense")), private
        )
        return Shared(gradients, private, targets, origin.to(private.device), mean)
    members = [(number, i) for number, batch in enumerate(batches) for i in batch]
    names = images.names if alone else [f"{number}: {images.names[i]}" for number, i in members]
    origin = torch.tensor([i for _, i in members], device=private.device)
    # The members of all batches stand one after the other: a batch of two and one of three are [0, 1] and [2, 3, 4].
    member_batches, start = [], 0
    for batch in batches:
        member_batches.append(list(range(start, start + len(batch))))
        start += len(batch)
    mean = batch_weights(member_batches, len(members)).to(private.device)
    pool = _pool(context, context.images("training", limited=False))
    defended, mixed = context.build("defense")(private[origin], targets[origin], pool, context.rng(names, "defense"))
    return Shared(averaged(image_gradients(network, defended, mixed), mean), defended, mixed, origin, mean)


def _read_by_insider(
    context: StepContext, network: torch.nn.Module, gradients: Gradients, private: torch.Tensor
) -> Gradients:
    """Return the shared gradients after an attacker who knows the defense undid it, see `undone`.

    The attacker tries the defense on gradients of training images, or of random images if the task has none.
    """
    names = [f"probe {k}" for k in range(PROBES)]
    if "training" in context.roles:
        images, labels = _loaded(context, context.images("training", limited=False).first(PROBES))
    else:
        images = context.rng(names, "probes").uniform(*private.shape[1:])
        labels = torch.arange(PROBES, device=private.device) % _classes(context)
    targets = F.one_hot(labels, _classes(context)).to(images.dtype)
    streams = context.rng(names[: len(images)], "probes", "defense")
    protect = context.build("defense")
    return undone(gradients, image_gradients(network, images, targets), lambda plain: protect(plain, streams))


@step(version="1", doing="comparing rebuilt images by {metric}")
def leakage(context: StepContext) -> StepResult:
    """Compare every reconstruction with its private image."""
    images, metric = _private(context), context.build("metric")
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"])

    def score(positions: list[int], private: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": metric(rebuilt[positions].to(private.device).float() / 255, private)}

    measured = context.map(images, score)
    closeness = np.full(len(images), context.component("metric").closeness)
    return StepResult(rows={"name": list(images.names), **measured, "closeness": closeness})


@step(version="1", doing="comparing a guess without a gradient by {metric}")
def guess(context: StepContext) -> StepResult:
    """Compare every private image with the mean of the training images, a guess without any gradient."""
    images, metric = _private(context), context.build("metric")
    mean = _pool(context, context.images("training", limited=False)).images.mean(dim=0).mul(255).round() / 255

    def score(positions: list[int], private: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": metric(mean.to(private.device).expand_as(private), private)}

    return StepResult(rows={"name": list(images.names), **context.map(images, score)})


@step(version="1", doing="comparing all rebuilt images by {metric}")
def distribution(context: StepContext) -> StepResult:
    """Compare all reconstructions with all private images by one number."""
    private, _ = _loaded(context, _private(context))
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"]).to(context.device).float() / 255
    with torch.no_grad():
        score = context.build("metric")(rebuilt, private)
    return StepResult(rows={"score": [float(score)], "closeness": [context.component("metric").closeness]})


@step(version="1", doing="recognising rebuilt images")
def recognise(context: StepContext) -> StepResult:
    """Record whether the judge gives every reconstruction the class of its private image."""
    images = _private(context)
    private, labels = _loaded(context, images)
    network = _network(context, private, "judge", "judge")
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"]).to(context.device).float() / 255
    recognised, clean = (top1(network, x) == labels for x in (rebuilt, private))
    return StepResult(
        rows={
            "name": list(images.names),
            "recognised": recognised.cpu().numpy(),
            "recognised_clean": clean.cpu().numpy(),
        }
    )


@step(version="1", doing="keeping images for the gallery")
def gallery(context: StepContext) -> StepResult:
    """Keep the first private images for the gallery."""
    images = context.images()
    first = list(range(min(int(context.options["images"]), len(images))))
    pixels = images.load(first).mul(255).round().byte().cpu().numpy()
    return StepResult(rows={"position": first, "name": [images.names[i] for i in first]}, arrays={"images": pixels})


def _private(context: StepContext) -> ImageSet:
    """Return the images that are attacked: the first ones, where the option `attacked` says how many."""
    return context.images().first(int(context.options.get("attacked", 0)) or None)


def _trained(context: StepContext, purpose: str, guard) -> StepResult:
    """Train the component "model" on the training images; keep its state and its answers on held-out images.

    `purpose`: seeds the order of the images. `guard`: the defense component that acts during training, or the function
    that degrades the training images of the judge.
    """
    images = context.images(limited=False)
    held_out, labels = _loaded(context, images)
    pool = _pool(context, context.images("training", limited=False))
    options, rng = context.options, generator(_seed(context, "model", purpose))
    schedule = Schedule(**{field.name: options[field.name] for field in fields(Schedule) if field.name in options})
    built = context.build("defense") if isinstance(guard, GradientDefense | ImageProtection) else None
    training = ClassifierTraining(_fresh(context, held_out, "model"), pool, schedule, rng, guard, built)
    for number in range(training.steps):
        training.step(number)
        context.progress(number + 1, training.steps)
    state = training.network.state_dict().items()
    return StepResult(
        rows={
            "name": list(images.names),
            "source": _sources(images),
            "right": (top1(training.network, held_out) == labels).cpu().numpy(),
        },
        arrays={WEIGHT + name: tensor.detach().cpu().numpy() for name, tensor in state},
        facts={"training_images": len(pool.images)},
    )


def _network(context: StepContext, images: torch.Tensor, role: str, need: str) -> torch.nn.Module:
    """Return the classifier to attack or to use as a judge, trained in this run if that was planned."""
    network = _fresh(context, images, role)
    if need in context.options:
        arrays = context.need(need).arrays
        state = {name.removeprefix(WEIGHT): torch.from_numpy(np.array(a)) for name, a in arrays.items()}
        network.load_state_dict(state)
    return network.eval().requires_grad_(False)


def _fresh(context: StepContext, images: torch.Tensor, role: str) -> torch.nn.Module:
    """Return the network as initialised: the same one in every task of the run, so that defenses are compared on it."""
    rng = generator(_seed(context, role, "initialisation"))
    return context.build(role)(tuple(images.shape[1:]), _classes(context), rng)


def _seed(context: StepContext, role: str, purpose: str) -> int:
    """Return a seed that is the same in every task of the run with this component: defenses do not change it."""
    return int(context.rng([context.component(role).label], purpose).integers(0, 2**62)[0])


def _classes(context: StepContext) -> int:
    """Return the number of classes: the largest label plus one, of the training images if the task has them."""
    role = "training" if "training" in context.roles else "dataset"
    return int(np.asarray(context.images(role, limited=False).columns["label"]).max()) + 1


def _sources(images: ImageSet) -> list[str]:
    """Return the source of each image, such as a photograph; the image itself where the data set names none."""
    return [str(source) for source in images.columns.get("source", images.names)]


def _loaded(context: StepContext, images: ImageSet) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pixels ``(N, C, H, W)`` and the labels ``(N,)`` of all these images on the run's device."""
    labels = torch.from_numpy(np.array(images.columns["label"])).long()
    return images.load(list(range(len(images)))).to(context.device), labels.to(context.device)


def _pool(context: StepContext, images: ImageSet) -> ImagePool:
    """Return all these images with one-hot labels, as defenses take other images."""
    pixels, labels = _loaded(context, images)
    return ImagePool(pixels, F.one_hot(labels, _classes(context)).to(pixels.dtype))
