"""Face de-identification: a track, its data and two contracts of its own.

The first picture of each person is in the gallery, with a name. The face on each other picture is hidden, and a
recogniser names its person by the nearest features in the gallery. An attacker who knows the defense hides the faces of
the gallery in the same way (Newton, Sweeney and Malin, 2005, call it parrot recognition).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet
from imharness.extending import IMAGES, SAME_IMAGES, Call, Component, Rows
from imharness.images import Images, Info, hookimpl
from imharness.leaderboard import Column, Contest, Wins, Words, contest, controls_of, flags_of, mean_value, share_of
from imharness.tracks import Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step

SIDE = 48
"""The side of a drawn picture, px."""
SIDES = ("left", "top", "right", "bottom")
BOXES = Rows(dimensions=2, unit=True, draw=lambda n, seed: torch.tensor([[0.2, 0.2, 0.7, 0.8]]).repeat(n, 1))
"""``(N, 4)``: where faces are, as shares of width and height, in the order of `SIDES`."""
Hide = Callable[[Images, torch.Tensor], Images]
Features = Callable[[Images], torch.Tensor]


class Deidentifier(Component):
    """Hides faces, at positions that it is given."""

    kind: ClassVar[str] = "defense"
    call = Call(images=IMAGES, boxes=BOXES, returns=SAME_IMAGES, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> Hide:
        """Return the function."""


class Recogniser(Component):
    """Gives features of faces ``(N, any)``; pictures of one person have features that lie close together."""

    kind: ClassVar[str] = "evaluator"
    call = Call(images=IMAGES, returns=Rows(dimensions=2), by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> Features:
        """Return the function."""


def inside(images: Images, boxes: torch.Tensor) -> torch.Tensor:
    """Return which pixels are in the boxes, bool ``(N, 1, H, W)``."""
    height, width = images.shape[2:]
    y = (torch.arange(height, device=images.device)[:, None] + 0.5) / height
    x = (torch.arange(width, device=images.device) + 0.5) / width
    x0, y0, x1, y1 = boxes[:, :, None, None].unbind(1)
    return ((x >= x0) & (x < x1) & (y >= y0) & (y < y1))[:, None]


class Untouched(Deidentifier):
    """Leave the faces as they are."""

    info = Info(id="acme/untouched", version="1", control="faces as they are")

    def build(self, device: torch.device) -> Hide:
        return lambda images, boxes: images.clone()


class BlackBox(Deidentifier):
    """Paint the boxes black."""

    info = Info(id="acme/black-box", version="1")

    def build(self, device: torch.device) -> Hide:
        return lambda images, boxes: images.masked_fill(inside(images, boxes), 0.0)


class Mosaic(Deidentifier):
    """Replace squares in the boxes by their mean."""

    info = Info(id="acme/mosaic", version="1")
    side: int = Field(default=6, ge=2, le=16, description="Side of a square, px.")

    def build(self, device: torch.device) -> Hide:
        def hide(images: Images, boxes: torch.Tensor) -> Images:
            small = torch.nn.functional.avg_pool2d(images, self.side, ceil_mode=True)
            large = small.repeat_interleave(self.side, 2).repeat_interleave(self.side, 3)
            return torch.where(inside(images, boxes), large[:, :, : images.shape[2], : images.shape[3]], images)

        return hide


def middle(images: Images, side: int) -> torch.Tensor:
    """Return the middle half of images as `side` x `side` colours ``(N, 3 * side**2)``."""
    edge = images.shape[2] // 4
    return torch.nn.functional.adaptive_avg_pool2d(images[:, :, edge:-edge, edge:-edge], side).flatten(1)


class Pixels(Recogniser):
    """A small copy of the middle of the picture."""

    info = Info(id="acme/pixels", version="1")

    def build(self, device: torch.device) -> Features:
        return lambda images: middle(images, 6)


class Colours(Recogniser):
    """The colours of four parts of the middle of the picture."""

    info = Info(id="acme/colours", version="1")

    def build(self, device: torch.device) -> Features:
        return lambda images: middle(images, 2)


class DrawnFaces(ImageDataset):
    """Faces that are drawn from a few numbers: face and hair of a person stay, position and light differ by picture."""

    info = Info(id="acme/drawn-faces", version="1")
    people: int = Field(default=24, ge=2, le=1000, description="People.")
    shots: int = Field(default=3, ge=2, le=20, description="Pictures of each.")

    def build(self, device: torch.device) -> ImageSet:
        drawn = [_drawn(person, shot) for person in range(self.people) for shot in range(self.shots)]
        names = tuple(f"person-{p:03}-{shot}" for p in range(self.people) for shot in range(self.shots))
        pixels = torch.from_numpy(np.stack([image for image, _ in drawn])).float() / 255
        columns = dict(zip(SIDES, np.stack([box for _, box in drawn]).T, strict=True))
        columns["person"] = np.array([name.rpartition("-")[0] for name in names])
        shapes = ((SIDE, SIDE),) * len(names)
        return ImageSet(names, shapes, lambda positions: pixels[list(positions)], columns, "drawn faces")


def _drawn(person: int, shot: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Return a picture, uint8 ``(3, 48, 48)``, and the box of the face."""
    of_person, of_shot = np.random.default_rng([1, person]), np.random.default_rng([2, person, shot])
    skin, hair, iris = (
        of_person.uniform((0.45, 0.3, 0.2), (1, 0.8, 0.7)),
        of_person.uniform(0, 0.6, 3),
        of_person.uniform(0, 0.7, 3),
    )
    wide, tall, apart, lips = of_person.uniform((10, 13, 4, 3), (14, 17, 7, 7))
    x0, y0 = SIDE / 2 + of_shot.uniform(-1.5, 1.5, 2)
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    image = np.broadcast_to(of_shot.uniform(0.3, 0.8, 3)[:, None, None], (3, SIDE, SIDE)).copy()
    image[:, ((x - x0) / wide) ** 2 + ((y - y0) / tall) ** 2 < 1] = skin[:, None]
    image[:, (((x - x0) / wide) ** 2 + ((y - y0) / tall) ** 2 < 1) & (y < y0 - tall / 2)] = hair[:, None]
    for side in (-1, 1):
        image[:, (x - x0 - side * apart) ** 2 + (y - y0 + 2) ** 2 < 4] = iris[:, None]
    image[:, (abs(x - x0) < lips) & (abs(y - y0 - tall / 2) < 1)] = np.array([0.7, 0.1, 0.2])[:, None]
    lit = image * of_shot.uniform(0.9, 1.1) + of_shot.normal(0, 0.02, image.shape)
    box = np.array([x0 - wide, y0 - tall, x0 + wide, y0 + tall]) / SIDE
    return np.clip(np.rint(255 * lit), 0, 255).astype(np.uint8), np.clip(box, 0, 1).astype(np.float32)


@step(version="1")
def search(context: StepContext) -> StepResult:
    """Name the person on each hidden picture, and measure how much of the picture is left as it was."""
    images, hide, features = context.images(), context.build("defense"), context.build("evaluator")
    boxes = torch.from_numpy(np.stack([images.columns[side] for side in SIDES], axis=1))

    def measure(positions: list[int], batch: Images) -> dict[str, torch.Tensor]:
        hidden = hide(batch, boxes[positions].to(batch.device))
        unchanged = 1 - (hidden - batch).abs().mean(dim=(1, 2, 3))
        return {"clear": features(batch), "hidden": features(hidden), "unchanged": unchanged}

    measured, people = context.map(images, measure), images.columns["person"]
    first = np.unique(people, return_index=True)[1]
    others = np.setdiff1d(np.arange(len(images)), first)
    gallery = measured["hidden" if context.options["attacker"] == "adaptive" else "clear"][first]
    distances = ((measured["hidden"][others, None] - gallery[None]) ** 2).sum(axis=2)
    right = people[first][distances.argmin(axis=1)] == people[others]
    names = np.array(images.names)[others]
    return StepResult(
        rows={
            "name": names.tolist(),
            "person": people[others].tolist(),
            "recognised": right.astype(np.float32),
            "unchanged": measured["unchanged"][others],
        }
    )


class Faces(Track):
    """Rank what hides faces by how many people are recognised all the same."""

    info = Info(id="acme/faces", version="1")
    title = "Faces"
    measures = "How often the person on a picture is recognised although the face was hidden."
    question = "Which way to hide a face hides who it is?"
    steps = (search,)
    ranks = ("defense",)
    own_objects = {"defense": Deidentifier, "evaluator": Recogniser}

    def plan(self, planner: Planner, selection: Selection) -> None:
        for dataset in selection.of(ImageDataset):
            for recogniser in selection.of(Recogniser):
                inner = planner.within(dataset=dataset, evaluator=recogniser)
                for defense in selection.of(Deidentifier):
                    for attacker in ("fixed", "adaptive"):
                        inner.task(search, {"defense": defense}, options={"attacker": attacker})

    def report(self, query: Query) -> TrackReport:
        blocks = query.blocks(
            "SELECT defense, dataset, evaluator, attacker, name, person, recognised, unchanged FROM search",
            entry="defense",
            by=["dataset", "evaluator", "attacker"],
            about=["person"],
            measures=["recognised", "unchanged"],
        )
        plain = "acme/untouched"
        utility = {entry: _means(*blocks.once_by("person", "unchanged", entry)) for entry in blocks.entries}
        as_it_was = Column(
            "unchanged", "left as it was", "Of a picture.", "higher", value=lambda entry: mean_value(utility[entry])
        )
        wins = Wins("wins", "Who hides people better", "fewer people recognised", unit="picture")
        return contest(
            Contest(
                blocks,
                Column("recognised", "recognised", "Share of pictures.", "lower", wins=wins, cluster="person"),
                as_it_was,
                plain,
                Words("hides people best", lambda x: f"{100 * x:.0f} %", "recognised", "takes more than {bound} off"),
                [share_of(as_it_was.label, plain, 0.1, lambda entry: (utility[entry], utility[plain]))],
                over=("evaluator", "attacker"),
                attack="evaluator",
                controls=controls_of(query, "defense"),
                flags=flags_of(query, blocks.entries),
                proxies=("drawn faces stand for photographs",),
            ),
            id="ranking",
            title="Who is recognised",
            caption="The fewer people are recognised, the better.",
            entry="defense",
        )


def _means(values: npt.NDArray[np.float64], people: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    """Return the mean of each person's pictures."""
    return np.array([values[people == person].mean() for person in sorted(set(people))])


@hookimpl
def components() -> list[Component]:
    return [Untouched(), BlackBox(), Mosaic(), Mosaic(side=12), Pixels(), Colours(), DrawnFaces(), Faces()]
