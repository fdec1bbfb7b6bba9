"""Do attacks reach the distortion that their strength stands for? Achieved against target, by attack and metric."""

import numpy as np

from imharness.leaderboard import ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_iqa.calibration import TARGETS

MISS = 20.0
"""Larger misses are flagged, %."""
UNITS = {"linf": (255.0, "L-inf, 1/255"), "ssim": (1.0, "SSIM"), "psnr": (1.0, "PSNR, dB")}
"""Measure -> the factor of its numbers, and its label."""
_ROWS = """
SELECT a.dataset, metric, method, strength, distortion, name, c.photograph, linf,
       CAST(CASE WHEN distortion = 'linf' THEN linf
                 WHEN distortion = 'ssim' THEN ssim
                 WHEN distortion = 'psnr' AND linf > 0 THEN psnr END AS DOUBLE) AS achieved
FROM attack a JOIN clean c USING (dataset, metric, name) WHERE NOT adaptive AND distortion IS NOT NULL
"""


def tables(query: Query) -> list[Table]:
    """Return the table of all fixed attacks, the largest miss first; no table for results without a measure."""
    if not {"attack", "clean"} <= query.steps or "distortion" not in query("SELECT * FROM attack LIMIT 0"):
        return []
    facets = ["distortion", "strength", "metric", "dataset"]
    blocks = query.blocks(_ROWS, entry="method", by=facets, measures=["achieved", "linf"], about=["photograph"])
    rows = []
    for c, condition in enumerate(blocks.conditions):
        for label in blocks.entries:
            if condition["strength"] in TARGETS[condition["distortion"]] and len(blocks.of("linf", label, [c])):
                achieved, photographs = blocks.once_by("photograph", "achieved", label, [c])
                rows.append(_row(label, condition, achieved, photographs))
    columns = (
        ColumnSpec(key="target", label="target", description="Mean distortion that the strength stands for."),
        ColumnSpec(
            key="achieved", label="achieved", description="Mean over images; PSNR over the images that were changed."
        ),
        ColumnSpec(
            key="miss",
            label="miss %",
            decimals=1,
            description="Difference divided by the target; for SSIM, of 1 - SSIM.",
        ),
        ColumnSpec(
            key="flag", label=f"over {MISS:g} %", decimals=0, description="1 if the strength is not what its name says."
        ),
    )
    largest_first = columns[2].model_copy(update={"better": "higher"})
    table = Table(
        id="distortion",
        title="Distortion of attacks: achieved against target",
        caption="Weak, medium and strong stand for a mean distortion: L-inf 2, 4, 8 /255, SSIM 0.9, 0.8, 0.75 or PSNR "
        "35, 30, 25 dB (appendix A.3.4 of the paper). Fixed attacks; the largest miss stands first.",
        entry="attack",
        columns=columns,
        rows=tuple(ranked(rows, largest_first)),
    )
    return [table] if rows else []


def _row(label: str, condition: dict[str, str], distortions: np.ndarray, photographs: np.ndarray) -> Row:
    kind = condition["distortion"]
    factor, unit = UNITS[kind]
    achieved, target = mean_value(factor * distortions, photographs), factor * TARGETS[kind][condition["strength"]]
    values = {"target": Value(value=target), "achieved": achieved}
    if achieved.value is None:
        values |= {"achieved": missing("no image was changed"), "flag": Value(value=1.0)}
    else:
        miss = 100 * abs(achieved.value - target) / (1 - target if kind == "ssim" else target)
        values |= {"miss": Value(value=miss), "flag": Value(value=float(miss > MISS))}
    facets = {name: condition[name] for name in ("strength", "metric", "dataset")}
    return Row(label=" · ".join([label, *facets.values(), unit]), values=values, facets={**facets, "measure": unit})
