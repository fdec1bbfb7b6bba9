"""Makes small leaderboards of the track iqa with strangers' components, in this process, on photographs that ship."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.documents.leaderboards import Leaderboard
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.ranking.entries import StoreEntries
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.running.merging import merged_sweep

TRACK = "harness/iqa"
STRANGERS = Provenance("strangers", "1.0", "A stranger", "MIT", "")


def ran(folder: Path, cheats: Sequence[Component], honest: Sequence[str], secret: str = "") -> Leaderboard:
    """Run and rank entries on 36 photographs: one metric, and a gradient attack with and without knowledge of them."""
    registry = installed().joined(Registered(cheat, "strangers", STRANGERS) for cheat in cheats)
    track_profile = TrackProfile(
        select={
            "dataset": ["harness/pictures[size=48]"],
            "metric": ["harness/embedded-cnn"],
            "attack": ["harness/ifgsm"],
            "defense": ["harness/none", *honest, *(cheat.label for cheat in cheats)],
        },
        options={"strengths": ["medium"], "samples": 1, "shown": [], "variants_from": 72},
    )
    profile = Profile(name="blind", description="", tracks={TRACK: track_profile}, secret=secret)
    graph, store = plan_track(TRACK, profile, registry), Store(folder)
    cache = BuildCache(registry, store, torch.device("cpu"), 64, secret=secret)
    with warnings.catch_warnings(action="ignore"):
        records = {key: run_task(cache, key, task.spec, lambda done, of: None) for key, task in graph.tasks.items()}
    failed = {key: record.failure.message for key, record in records.items() if record.failure}
    sweep = merged_sweep(
        store,
        graph,
        done=graph.tasks.keys() - failed,
        failed=failed,
        profile="blind",
        seed=0,
        limit=None,
        command="harness run",
    )
    store.save_sweep(sweep)
    return make_leaderboard(store, graph.track, sweep, StoreEntries(registry))
