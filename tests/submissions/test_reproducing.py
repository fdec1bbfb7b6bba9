"""Which tasks of an entry are computed again."""

from types import SimpleNamespace

import pytest

from imharness_submissions import reproducing


@pytest.mark.parametrize(
    ("ids", "keys"),
    [({"harness/flip"}, ["1"]), ({"acme/distance"}, ["2"]), ({"harness/flip", "acme/distance"}, ["1", "2"])],
)
def test_tasks_in_which_another_one_s_submission_takes_part_are_left_out(ids: set[str], keys: list[str]) -> None:
    def record(key: str, *used: str) -> SimpleNamespace:
        components = {f"role {number}": SimpleNamespace(id=id) for number, id in enumerate(used)}
        return SimpleNamespace(key=key, status="done", spec=SimpleNamespace(components=components))

    records = [record("1", "harness/flip"), record("2", "harness/flip", "acme/distance"), record("3", "harness/l2")]
    store = SimpleNamespace(
        tracks=lambda: ["harness/iqa"],
        sweeps=lambda track: [SimpleNamespace(tasks={r.key: r.key for r in records})],
        records=lambda keys: [(r.key, r) for r in records if r.key in keys],
    )
    assert [r.key for r in reproducing._records(store, ids)] == keys
