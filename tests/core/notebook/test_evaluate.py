"""`imharness.evaluate`: own objects beside entries by name, their stored results, data sets, and errors."""

import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import Harness

import imharness as ih
from imharness.documents.stored import read_leaderboard
from imharness.errors import ContractError, UsageError
from imharness.notebook.participants import dataset_of
from imharness.results.store import Store
from imharness.results.version import SCHEMA
from imharness.running.executor import Worker
from imharness_iqa.defenses.gaussian_blur import GaussianBlur
from imharness_leaderboard.publishing import publish_site

IMAGES = torch.rand((4, 3, 32, 32), generator=torch.Generator().manual_seed(0))
PIECE = {"dataset": IMAGES, "progress": False}
"""Arguments of most evaluations here."""
CONTROLS = {"harness/none", "harness/squeeze", "harness/crush"}
"""Defenses that the track iqa always evaluates, whatever `against` names."""


def shifted(by: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a defense that moves images by so many columns."""
    return lambda images: images.roll(by, dims=-1)


def rounded(images: torch.Tensor) -> torch.Tensor:
    return (images * 7).round() / 7


@pytest.fixture(scope="module")
def evaluated_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook") / "store"


@pytest.fixture(scope="module")
def result(evaluated_store: Path) -> ih.Result:
    """Evaluate a module, a function, a lambda, a closure and the function of a plugin, against two entries."""
    blur = GaussianBlur().build(torch.device("cpu"))
    return ih.evaluate(
        ih.defense(torch.nn.AvgPool2d(3, 1, 1), differentiable=True, name="module"),
        ih.defense(rounded, differentiable=False),
        ih.defense(lambda images: images.flip(-1), differentiable=True, name="lambda"),
        ih.defense(shifted(3), differentiable=True, name="closure"),
        ih.defense(blur, differentiable=True, name="blur"),
        against=["gaussian-blur", "ifgsm"],
        store=evaluated_store,
        **PIECE,
    )


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the step and the defense of each task that is computed."""
    computed_steps: list[str] = []
    run = Worker.run

    def count(self, key, spec):
        computed_steps.append(
            f"{spec.step} {spec.components['defense'].label if 'defense' in spec.components else ''}".strip()
        )
        return run(self, key, spec)

    monkeypatch.setattr(Worker, "run", count)
    return computed_steps


def test_a_module_a_function_a_lambda_and_a_closure_rank_beside_the_entries(result: ih.Result) -> None:
    local_labels = {"local/module", "local/rounded", "local/lambda", "local/closure", "local/blur"}
    assert set(result.table("ranking").labels) == local_labels | CONTROLS | {"harness/gaussian-blur"}
    assert result.failed == {}
    assert np.isfinite(result["closure"].values["worst"])


def test_an_own_defense_has_the_rows_of_the_same_defense_as_a_plugin(result: ih.Result) -> None:
    for step in ("attack", "defended", "evaluate", "purify"):
        rows = result.rows(step)
        names = [name for name, column in rows.items() if column.dtype.kind == "f" and name != "ms"]
        function_rows, plugin = (
            {name: rows[name][rows["defense"] == label].tobytes() for name in names}
            for label in ("local/blur", "harness/gaussian-blur")
        )
        assert function_rows == plugin
        assert any(function_rows.values())
    assert result["blur"].values["worst"] == result["gaussian-blur"].values["worst"]


def test_the_first_lines_are_what_the_ranking_says_of_the_users_objects(result: ih.Result) -> None:
    (ranking,) = (ranking for ranking in result.rankings if ranking.table == "ranking")
    lines = repr(result).splitlines()
    users = [label for label in result.table("ranking").labels if label.startswith("local/")]
    wanted = [" ".join(ranking.places[label].headline).replace("local/", "") for label in users]
    assert len(users) == 5
    assert lines[:5] == [line.replace("harness/none", "No defense") for line in wanted]
    first = next(i for i, line in enumerate(lines) if line.startswith("defense "))
    assert {line.split()[0] for line in lines[first + 1 : first + 6]} == set(users)


SHIFT = {"by": 1}


def by_variable(images: torch.Tensor) -> torch.Tensor:
    return images.roll(SHIFT["by"], dims=-1)


def test_what_a_function_reads_may_change_and_old_numbers_never_come_back(tmp_path: Path, computed: list[str]) -> None:
    def by_file(images: torch.Tensor) -> torch.Tensor:
        return images.roll(int((tmp_path / "shift").read_text()), dims=-1)

    def worst(by: int, function: Callable[[torch.Tensor], torch.Tensor]) -> float:
        computed.clear()
        (tmp_path / "shift").write_text(str(by))
        SHIFT["by"] = by
        defense = ih.defense(function, differentiable=True, name="shift")
        result = ih.evaluate(defense, against=["ifgsm"], store=tmp_path / "store", **PIECE)
        assert "purify local/shift" in computed
        return result["shift"].values["worst"]

    for function in (by_file, by_variable):
        one, other, again = (worst(by, function) for by in (1, 9, 1))
        assert one == again
        assert one != other
    assert not any("harness" in task for task in computed)  # results without an own object are reused


def test_results_with_a_cache_key_are_kept_until_it_changes(tmp_path: Path, computed: list[str]) -> None:
    for key, is_computed in (("1", True), ("1", False), ("2", True), ("1", False)):
        computed.clear()
        defense = ih.defense(shifted(1), differentiable=True, name="shift", cache_key=key)
        ih.evaluate(defense, against=["ifgsm"], store=tmp_path, **PIECE)
        assert ("purify local/shift" in computed) == is_computed


def test_two_results_of_one_name_keep_their_own_rows(tmp_path: Path) -> None:
    rows = []
    for by in (1, 9):
        defense = ih.defense(shifted(by), differentiable=True, name="shift")
        rows.append(ih.evaluate(defense, against=["ifgsm"], store=tmp_path, **PIECE))
    first, second = (result.rows("purify") for result in rows)
    of_shift = [frame["defense"] == "local/shift" for frame in (first, second)]
    names = [name for name, column in first.items() if column.dtype.kind == "f" and name != "ms"]
    assert any((first[name][of_shift[0]] != second[name][of_shift[1]]).any() for name in names)


SCRIPT = """
import sys
import imharness as ih
import torch
KEY = sys.argv[1] if sys.argv[1:] else None
own = ih.defense(lambda images: images.flip(-2), differentiable=True, name="turn", cache_key=KEY)
ih.evaluate(own, against=["ifgsm"], dataset=torch.full((1, 3, 32, 32), 0.5), progress=False)
"""


def test_the_users_cache_keeps_no_result_that_no_further_call_can_use(tmp_path: Path) -> None:
    environment = dict(os.environ) | {"XDG_CACHE_HOME": str(tmp_path)}
    store = Store(tmp_path / "image-privacy-harness" / f"evaluations-{SCHEMA}")
    (tmp_path / "script.py").write_text(SCRIPT)

    def labels(*words: str) -> set[str]:
        command = [sys.executable, "-W", "error", str(tmp_path / "script.py"), *words]
        ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert "Traceback" not in ended.stderr
        records = [record for _, record in store.records()]
        keys = {record.key for record in records}
        for folder in ("tasks", "artifacts"):
            assert {path.name.partition(".")[0] for path in Path(store.address, folder).rglob("*.*")} <= keys
        return {ref.label for record in records for ref in record.spec.components.values()}

    assert "harness/none" in labels()
    assert "local/turn" not in labels()
    assert "local/turn" in labels("key")


def test_own_metrics_and_attacks_take_part_and_their_table_stands_first(tmp_path: Path) -> None:
    def brighter(images: torch.Tensor, target, rng) -> torch.Tensor:
        return (images + 2 / 255).clamp(0, 1)

    result = ih.evaluate(
        ih.attack(brighter, access="black_box", norm="linf", radius=2 / 255),
        ih.metric(lambda x: x.flatten(1).mean(1, keepdim=True), bounds=(0, 1), higher_means="better_quality", name="m"),
        "jpeg[quality=40]",
        against=["none"],
        store=tmp_path,
        **PIECE,
    )
    assert result.failed == {}
    assert "local/brighter" in result.table().labels
    rows = result.rows("clean")
    np.testing.assert_allclose(
        rows["score"][rows["metric"] == "local/m"], IMAGES.flatten(1).mean(1).numpy(), atol=1 / 255
    )
    assert set(result.table("ranking").labels) == CONTROLS | {"harness/jpeg[quality=40]"}


def test_an_attack_beyond_its_radius_is_refused_and_named(tmp_path: Path) -> None:
    attack = ih.attack(lambda x, target: 1 - x, access="black_box", norm="linf", radius=0.01, name="far")
    broken = ih.attack(
        lambda x, target: x * (1 // (len(x) - len(x))), access="black_box", norm="unrestricted", name="b"
    )
    fine = ih.attack(lambda x, target: x, access="black_box", norm="linf", radius=0.01, name="fine")
    result = ih.evaluate(attack, broken, fine, against=["flip"], store=tmp_path, **PIECE)
    message = "\n".join(result.failed.values())
    assert "ContractError: local/far: expected linf distance at most 0.01" in message
    assert "local/b: ZeroDivisionError" in message
    assert "local/far" in repr(result)


def test_objects_that_all_fail_are_an_error_and_no_table_of_others(tmp_path: Path) -> None:
    objects = [
        ih.defense(lambda x: x * (1 // (len(x) - len(x))), differentiable=True, name="raises"),
        ih.defense(lambda x: x.numpy(force=True), differentiable=False, name="array"),
    ]
    with pytest.raises(ContractError) as caught:
        ih.evaluate(*objects, against=["none"], store=tmp_path, **PIECE)
    message = str(caught.value)
    assert message.startswith("no task with local/array and local/raises could be computed: ")
    assert message.count("ZeroDivisionError") == 1
    assert message.count("local/array: expected") == 1


def test_an_entry_is_found_by_the_name_of_its_function(result: ih.Result) -> None:
    assert result["gaussian_blur"].label == "harness/gaussian-blur"
    with pytest.raises(UsageError, match=r"Known: .*local/module") as caught:
        result["nothing"]
    assert "harness/" not in str(caught.value)


def test_errors_name_the_argument(tmp_path: Path) -> None:
    defense = ih.defense(rounded, differentiable=False)
    for wrong, message in (
        ({"limit": 0}, "limit: expected at least 1"),
        ({"limit": 1.5}, "limit: expected a whole number, got 1.5"),
        ({"seed": "a"}, "seed: expected a whole number, got 'a'"),
        ({"store": 5}, "store: expected a folder or an address, got 5"),
        ({"against": 5}, "against: expected a list of names, got 5"),
        ({"against": "jpeg"}, r"against: expected a list of names; write \['jpeg'\]"),
        ({"against": ["jpeg[quality=0]"]}, "against: harness/jpeg: quality: Input should be greater"),
        ({"against": ["jpek"]}, "against: no component .* is called 'jpek'. Did you mean 'jpeg'"),
        ({"device": "cuda:99"}, "device: device 'cuda:99' is not on this machine"),
        ({"dataset": "nowhere"}, "dataset: no dataset is called 'nowhere'.* Nor is there a folder 'nowhere'.$"),
        ({"dataset": tmp_path / "absent"}, "dataset: .*absent is not a folder"),
        ({"dataset": np.full((2, 3, 8, 8), 9)}, r"dataset must be floats .*into bytes with .astype\(numpy.uint8\)"),
        ({"dataset": np.full((2, 3, 8, 8), 9.0)}, r"dataset must lie in \[0, 1\], got 9 to 9. Divide by 255"),
        ({"dataset": np.zeros((8, 8, 3))}, r"dataset must have shape \(n, 3, height, width\).*transpose"),
        ({"track": "perceptual", "dataset": IMAGES}, "dataset: track .* images without labels|objects: track"),
    ):
        with pytest.raises(UsageError, match=message):
            ih.evaluate(defense, **({"store": tmp_path, "progress": False} | wrong))
    with pytest.raises(UsageError, match="objects: give at least one"):
        ih.evaluate()
    with pytest.raises(UsageError, match=r"objects: <function rounded.* wrap it, as in imharness.defense"):
        ih.evaluate(rounded)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="name: two objects are called 'rounded'"):
        ih.evaluate(defense, defense, **PIECE)


def test_tables_for_others_leave_own_objects_out(tmp_path: Path, harness_here: Harness) -> None:
    store_folder = tmp_path / "store"
    defense = ih.defense(shifted(3), differentiable=True, name="closure")
    result = ih.evaluate(defense, against=["flip", "ifgsm"], limit=2, store=store_folder, progress=False)
    with pytest.raises(UsageError, match=r"the tables of harness/iqa contain local/closure: .*nobody else can run"):
        publish_site(store_folder, tmp_path / "site", "first")
    ranked = harness_here("results", "rank", "--store", str(store_folder), cwd=tmp_path)
    assert "left out: local/closure, an object of a notebook or script, which nobody else can run" in ranked.stdout
    leaderboard = read_leaderboard(Store(store_folder), "harness/iqa")
    assert leaderboard is not None
    assert {row.label for row in leaderboard.tables[0].rows} == set(result.table().labels) - {"local/closure"}
    assert not any(entry.id.startswith("local/") for entry in leaderboard.entries)


def test_tables_of_a_run_are_not_replaced(tmp_path: Path) -> None:
    ih.evaluate("flip", against=["ifgsm"], store=tmp_path, **PIECE)
    store = Store(tmp_path)
    (sweep,) = store.sweeps("harness/iqa")
    store.save_sweep(sweep.model_copy(update={"command": "harness run --all", "run_configuration": "of-a-run"}))
    before = read_leaderboard(store, "harness/iqa")
    ih.evaluate(ih.defense(rounded, differentiable=False), against=["ifgsm"], store=tmp_path, **PIECE)
    assert read_leaderboard(Store(tmp_path), "harness/iqa") == before


def test_a_notebook_shows_a_bar_and_takes_it_away(empty_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[str] = []

    class Handle:
        update = staticmethod(displayed.append)

    class ZMQInteractiveShell:
        pass

    display = types.SimpleNamespace(HTML=str, display=lambda value, display_id: displayed.append(value) or Handle)
    ipython = types.SimpleNamespace(get_ipython=ZMQInteractiveShell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    ih.evaluate("flip", against=["ifgsm"], dataset=IMAGES[:1])
    assert displayed[1].startswith("iqa <progress value='0'")
    assert re.search(r", \d\d:\d\d, time left not known yet$", displayed[1])
    assert "20 of 20 tasks" in displayed[-2]
    assert displayed[-1] == ""
    store_folder = empty_places / "cache" / "image-privacy-harness" / f"evaluations-{SCHEMA}"
    assert len(list(Store(store_folder).all_keys())) == 20


def test_images_of_bytes_are_the_same_data_set_as_floats() -> None:
    bytes_ = (IMAGES * 255).round().to(torch.uint8)
    of_floats, of_bytes, of_arrays = (dataset_of(images, "harness/iqa") for images in (IMAGES, bytes_, bytes_.numpy()))
    contents = {entry.component.ref().content for _, entry in (of_floats, of_bytes, of_arrays) if entry is not None}
    assert len(contents) == 1
    assert of_bytes[1] is not None
    np.testing.assert_array_equal(of_bytes[1].component.pixels, bytes_.numpy())  # type: ignore[attr-defined]


def test_a_folder_of_images_is_a_data_set(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "images").mkdir()
    pixels = (IMAGES[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "images" / "one.png")
    store, before = tmp_path / "store", os.environ.get("OPENCV_FOR_THREADS_NUM")
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        result = ih.evaluate("flip", against=["ifgsm"], dataset=tmp_path / "images", store=store, progress=False)
        assert torch.get_num_threads() == threads + 1
    finally:
        torch.set_num_threads(threads)  # the tests that follow are slower with one more
    assert result.rows("clean")["name"].tolist() == ["one.png"]
    assert os.environ.get("OPENCV_FOR_THREADS_NUM") == before


def test_a_folder_with_the_name_of_a_data_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "severity-ladder").mkdir()
    with pytest.raises(UsageError, match=f"write 'harness/severity-ladder' for the data set, or '{tmp_path}/severity"):
        ih.evaluate("flip", dataset="severity-ladder", store=tmp_path / "store", progress=False)
    assert dataset_of("harness/severity-ladder", "harness/iqa") == ("harness/severity-ladder", None)


def test_a_folder_without_images_is_named_without_an_option_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^dataset: \S+ has no images, neither in it nor in its folders\.$"):
        ih.evaluate("flip", dataset=tmp_path, store=tmp_path / "store", progress=False)


def test_a_store_and_a_site_load_as_results(evaluated_store: Path, result: ih.Result, tmp_path: Path) -> None:
    from imharness_leaderboard.folder import SiteFolder
    from imharness_leaderboard.numbers import write_results

    leaderboard = read_leaderboard(Store(evaluated_store), "harness/iqa")
    assert leaderboard is not None
    loaded = ih.load(evaluated_store)
    assert list(loaded.tables) == [table.id for table in leaderboard.tables]
    assert set(loaded.steps) == set(result.steps)
    site = SiteFolder(tmp_path)
    write_results(site, [leaderboard], "")
    site.finish()
    assert repr(ih.load(tmp_path).table()) == repr(loaded.table())
    with pytest.raises(UsageError, match=r"store_or_site: .*nowhere is not a folder"):
        ih.load(tmp_path / "nowhere")


def test_tables_of_several_tracks_are_told_apart_by_the_track(tmp_path: Path) -> None:
    for track, name, limit in (("iqa", "flip", 2), ("perceptual", "psnr", 6)):
        ih.evaluate(name, against=["ifgsm"], track=track, limit=limit, store=tmp_path, progress=False)
    loaded = ih.load(tmp_path)
    assert {"iqa/ranking", "perceptual/ranking"} <= set(loaded.tables)
    assert {ranking.table for ranking in loaded.rankings} == {"iqa/ranking", "perceptual/ranking"}
    assert {"iqa/clean", "perceptual/distance"} <= set(loaded.steps)
    assert len(loaded.rows("perceptual/distance")["distance"])
    assert "harness/psnr" in loaded.table("perceptual/ranking").labels


def test_versions_of_a_photograph_in_an_array_count_as_one() -> None:
    from imharness.notebook.components import images_of

    scenes = np.random.default_rng(0).integers(0, 256, (3, 3, 6, 6), dtype=np.uint8).repeat(4, axis=2).repeat(4, axis=3)
    versions = np.concatenate([scenes, 255 - (255 - scenes) // 2, np.full((2, 3, 24, 24), 90, np.uint8)])
    with pytest.warns(UserWarning, match="8 images look like 5 photographs, and count as so many, such as image-0003"):
        dataset = images_of(versions).component.build(torch.device("cpu"))
    expected = [f"image-000{i}" for i in (0, 1, 2, 0, 1, 2, 6, 7)]
    assert dataset.columns["photograph"].tolist() == expected
