"""A label that was made can be read again, and the key of a task is the digest of its canonical JSON."""

import hashlib
import json

import pytest

from imharness.errors import UsageError
from imharness.results.identity import ComponentRef, canonical_json
from imharness.results.labels import (
    LABEL,
    id_of,
    label_of,
    label_with,
    read_name,
    read_settings,
    settings_in,
    without_settings,
)
from imharness.results.tasks import TaskSpec


@pytest.mark.parametrize(
    ("parameters", "label"),
    [
        ({}, "acme/blur"),
        ({"size": 3}, "acme/blur[size=3]"),
        ({"sigma": 0.1 + 0.2, "mode": "reflect"}, "acme/blur[sigma=0.3,mode=reflect]"),
        ({"sizes": (3, 5), "fast": True}, "acme/blur[sizes=(3, 5),fast=True]"),
    ],
)
def test_a_label_that_was_made_is_read_again(parameters: dict[str, object], label: str) -> None:
    assert label_of("acme/blur", parameters) == label
    read = read_name(label)
    assert read is not None
    assert (read.id, read.address) == (id_of(label), None) == ("acme/blur", None)
    settings = read_settings(read.settings or "", read.id)
    assert settings == {**parameters, **({"sigma": 0.3} if "sigma" in parameters else {})}
    assert without_settings(f"{label} + acme/flip") == "acme/blur + acme/flip"


def test_a_further_setting_stands_behind_the_others() -> None:
    assert label_with("acme/faces", split="train") == "acme/faces[split=train]"
    assert label_with("acme/faces[sizes=(3, 5),n=2]", split="train") == "acme/faces[sizes=(3, 5),n=2,split=train]"
    assert label_with("acme/faces:/data/a[1]:b", split="train") == "acme/faces[split=train]:/data/a[1]:b"
    assert label_with("acme/faces[n=(1, 2)]:/a", split="train") == "acme/faces[n=(1, 2),split=train]:/a"
    both = read_name("acme/faces[n=2,split=train]:/data/a[1]:b")
    assert both is not None
    assert (both.settings, both.address) == ("n=2,split=train", "/data/a[1]:b")
    assert settings_in("acme/a[x=1,y=(2, 3)] + acme/b[z=4]") == ["x=1", "y=(2, 3)", "z=4"]


def test_labels_are_found_in_a_text_and_names_may_have_an_address() -> None:
    assert LABEL.findall("rho: acme/blur[size=3], acme/flip") == ["acme/blur[size=3]", "acme/flip"]
    read = read_name("huggingface:owner/photographs\n")
    assert read is not None
    assert (read.id, read.settings, read.address) == ("huggingface", None, "owner/photographs\n")
    assert read_name("acme/blur[size=3]x") is None
    with pytest.raises(UsageError, match=r"cannot read parameter 'size'; write acme/blur\[field=value\]"):
        read_settings("size", "acme/blur")


def test_the_key_of_a_task_is_the_digest_of_its_canonical_json() -> None:
    components = {
        role: ComponentRef(kind="defense", id=f"acme/{role}", version="1", label=f"acme/{role}", parameters=parameters)
        for role, parameters in (("metric", {"null": None}), ("attack", {"name": 'a "null" ü'}), ("distance.b", {}))
    }
    spec = TaskSpec(
        track="acme/track",
        step="null",
        version="null",
        components=components,
        options={"null": "null", "rate": 0.1},
        limit=None,
        seed=3,
        needs={"attack": "0" * 64},
    )
    text = json.dumps(spec.identity(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    key = spec.key_with({role: canonical_json(ref.identity()) for role, ref in components.items()})
    assert key == hashlib.sha256(text.encode()).hexdigest()
    none = spec.model_copy(update={"components": {}})
    assert none.key_with({}) == hashlib.sha256(canonical_json(none.identity()).encode()).hexdigest()
