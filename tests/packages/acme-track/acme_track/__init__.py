"""A track beside the four of the harness, from a package of its own."""

from collections.abc import Mapping

import torch

from imharness.data import ImageDataset
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, Info, hookimpl
from imharness.leaderboard import Column, Wins, ranking
from imharness.tracks import Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step


@step(version="1")
def flip(context: StepContext) -> StepResult:
    """Measure the distance of every image from its mirror image."""
    images = context.images()
    metric: FullReferenceScore = context.build("metric")
    (judge,) = context.measures("judged").values()
    dim = 2 if context.options["vertical"] else 3

    def measure(positions: list[int], batch: Images) -> Mapping[str, torch.Tensor]:
        return {"score": metric(batch.flip(dim), batch), "judged": context.build(judge)(batch.flip(dim), batch)}

    return StepResult(rows={"name": list(images.names), **context.map(images, measure)})


class Flips(Track):
    """Rank distances by how far apart they put mirror images."""

    info = Info(id="acme/flips", version="1")
    title = "Mirror images"
    measures = "How far a distance puts mirror images apart."
    steps = (flip,)
    own_objects = {"metric": FullReferenceMetric}
    folder_dataset = "harness/folder"
    accepts_unlabelled = True
    vertical: bool = False

    def plan(self, planner: Planner, selection: Selection) -> None:
        judge = planner.component("metric", "harness/linf")
        for dataset in selection.of(ImageDataset):
            inner_planner = planner.within({"vertical": self.vertical}, dataset=dataset)
            for metric in selection.of(FullReferenceMetric):
                inner_planner.task(flip, {"metric": metric}, measures={"judged": {"linf": judge}})

    def report(self, query: Query) -> TrackReport:
        sql = "SELECT f.*, c.higher_means FROM flip f JOIN components c ON c.kind = 'metric' AND c.label = f.metric"
        scores = query.blocks(sql, entry="metric", by=["dataset", "higher_means"], measures=["score", "judged"])
        wins = Wins("flip-wins", "Who is nearer", "a smaller distance")
        distance = Column("score", "distance", "Mean over images.", "lower", wins=wins)
        judged = Column("judged", "L-inf", "Mean over images.")
        text = "The smaller, the better."
        return ranking(scores, distance, judged, id="flips", title="Flips", caption=text, entry="metric", chart=text)


@hookimpl
def components() -> list[Track]:
    return [Flips()]
