"""Tests that take long: each test process begins with them, and `.ci/quick.py` leaves them out."""

LONG = tuple(
    f"tests/{name}"
    for name in (
        "acceptance/",
        "blind/test_leaderboards",
        "core/testing/test_scaffold",
        "core/testing/test_suite",
        "core/running/schedule/test_sharding",
        "core/running/test_executors",
        "core/running/test_numerics",
        "core/running/test_projections",
        "core/running/test_shards",
        "core/test_outside_track",
        "faults/",
        "core/components/inputs/test_importing",
        "leaderboard/test_browser",
        "leaderboard/test_rescoring",
        "plugins/annotation/",
        "plugins/iqa/test_attacks",
        "plugins/iqa/test_calibration",
        "plugins/iqa/test_certified",
        "plugins/iqa/test_external",
        "plugins/iqa/test_metrics",
        "plugins/iqa/test_track",
        "plugins/iqa/test_training_defenses",
        "plugins/membership/test_audit",
        "plugins/membership/test_defenses",
        "plugins/perceptual/test_embedded",
        "plugins/reconstruction/test_attacks",
        "sandbox/test_hostile",
        "core/results/storage/test_races",
        "submissions/",
        "test_docs",
        "test_gpu",
        "truth/",
    )
)
"""Files and folders whose tests take more than ten seconds when four processes share two cores."""
