"""Comparisons from long rows, one for each entry, condition and unit, as tests write them by hand."""

import itertools
from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from imharness.documents.report import PairedScores


def paired_scores(
    entries: npt.NDArray[np.generic],
    facets: Mapping[str, npt.NDArray[np.generic]],
    units: npt.NDArray[np.generic],
    scores: npt.ArrayLike,
    *,
    id: str,
    title: str,
    about: str,
    entry: str,
    measure: str,
    description: str,
    better: Literal["higher", "lower"],
    decimals: int = 3,
    unit: str = "image",
    families: Mapping[str, str] | None = None,
    table: str = "",
    column: str = "",
    clusters: Mapping[str, str] | None = None,
    cluster_unit: str = "",
) -> PairedScores:
    """Arrange long rows by entry, condition and unit. A condition is a combination of the values of `facets`.

    `clusters`: the cluster of each unit.
    """
    labels, row = _codes(entries)
    names, unit_codes = _codes(units)
    coded = [_codes(values) for values in facets.values()]
    shape = tuple(max(len(distinct), 1) for distinct, _ in coded)
    flat = np.ravel_multi_index(tuple(codes for _, codes in coded), shape)
    present, condition = np.unique(flat, return_inverse=True)
    numbers = np.asarray(scores, dtype=np.float32)
    order = np.argsort(condition, kind="stable")
    ends = np.searchsorted(condition[order], np.arange(len(present) + 1))
    blocks, sets = [], []
    for start, end in itertools.pairwise(ends):
        mine = order[start:end]
        here, where = np.unique(unit_codes[mine], return_inverse=True)
        block = np.full((len(labels), len(here)), np.nan, np.float32)
        block[row[mine], where] = numbers[mine]
        blocks.append(block)
        sets.append(tuple(names[i] for i in here))
    combos = np.stack(np.unravel_index(present, shape), axis=1) if len(present) else np.zeros((0, len(shape)), int)
    conditions = tuple(
        {name: coded[i][0][code] for i, (name, code) in enumerate(zip(facets, combo, strict=True))} for combo in combos
    )
    return PairedScores(
        id=id,
        title=title,
        about=about,
        entry=entry,
        measure=measure,
        description=description,
        better=better,
        entries=tuple(labels),
        conditions=conditions,
        units=tuple(sets),
        values=tuple(blocks),
        decimals=decimals,
        unit=unit,
        families=families or {},
        table=table,
        column=column,
        cluster_unit=cluster_unit,
        clusters=tuple(tuple(clusters[name] for name in unit_set) for unit_set in sets) if clusters else (),
    )


def _codes(values: npt.NDArray[np.generic]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the sorted distinct labels and, for every value, the position of its label."""
    encoded = pa.array(values.astype(object) if values.dtype.kind == "U" else values).dictionary_encode()
    labels = [str(label) for label in encoded.dictionary.to_pylist()]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    return [labels[i] for i in order], rank[np.asarray(encoded.indices)]
