"""What the site draws for the track: robustness against quality and time, and attacked images beside defended ones."""

from collections.abc import Sequence

from imharness.leaderboard import Chart, Example, Panel, Table
from imharness.tracks import Query


def charts(tables: Sequence[Table]) -> list[Chart]:
    """Return scatter plots of the ranking, of table 2, of both references and of the parameter study."""
    present = {table.id for table in tables}
    candidates = [
        Chart(
            id="quality",
            title="Robustness against quality",
            kind="scatter",
            table="defenses",
            x="fixed_d",
            y="fixed_ssim",
            front=True,
            caption="How far attack and defense together move the score, against how much of the image is left. The "
            "line joins the defenses that no other beats in both.",
        ),
        Chart(
            id="time",
            title="Robustness against time",
            kind="scatter",
            table="defenses",
            x="ms",
            y="fixed_d",
            log=True,
            front=True,
            caption="Milliseconds per image, on a log axis, against D of fixed attacks.",
        ),
        Chart(
            id="adaptive",
            title="Fixed against adaptive attacks",
            kind="scatter",
            table="defenses",
            x="common_d",
            y="adaptive_d",
            front=True,
            caption="The same attacks on the same metrics, once without and once with knowledge of the defense. A "
            "defense far above the others of its column was robust only to attacks that did not know it.",
        ),
        Chart(
            id="references",
            title="Change against the clean score and against the defended one",
            kind="scatter",
            table="references",
            x="fixed_dd",
            y="fixed_d",
            caption="D against D^D of fixed attacks. A defense far above the others of its column moves the scores of "
            "clean images, too.",
        ),
        Chart(
            id="parameters",
            title="Parameter study",
            kind="scatter",
            table="parameters",
            x="d",
            y="srocc",
            front=True,
            caption="Every variant of every defense: D against the rank correlation with quality labels, both "
            "attacked.",
        ),
    ]
    return [chart for chart in candidates if chart.table in present]


CAPTION = (
    "An image as it is, after an attack that does not know the defense, and the attacked one behind the defense, each "
    "with its score. Of the attacks that were kept for the gallery, each image has the one that moves its score most."
)


def examples(query: Query) -> list[Example]:
    """Return original, attacked and defended images with their scores, each under the worst attack that was kept."""
    if "gallery" not in query.steps:
        return []
    rows = query(
        "SELECT * FROM gallery QUALIFY row_number() OVER (PARTITION BY defense, dataset, metric, name "
        "ORDER BY abs(score - source) DESC, method, strength) = 1 ORDER BY defense, method, task, position"
    )
    results = []
    for i, (task, position) in enumerate(zip(rows["task"], rows["position"], strict=True)):
        scores = {"original": rows["source"][i], "attacked": rows["attacked"][i], "defended": rows["score"][i]}
        panels = tuple(
            Panel(label=label, task=task, array=f"{label}-{position}", position=0, score=f"{score:.2f}")
            for label, score in scores.items()
        )
        facets = {name: str(rows[name][i]) for name in ("dataset", "metric", "method", "strength")}
        entry, title = str(rows["defense"][i]), str(rows["name"][i])
        results.append(Example(entry=entry, title=title, facets=facets, panels=panels, caption=CAPTION))
    return results
