"""Checks that a component of any author can be planned, labelled, digested and shown on a page."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from imharness.contracts.component import SELECTABLE, Component
from imharness.errors import PluginError
from imharness.reading.fields import explain
from imharness.reading.structured import texts_in
from imharness.reading.text import is_plain, reason
from imharness.results.identity import canonical_json
from imharness.results.labels import id_of

MOST_VARIANTS = 200
"""The most values of a parameter study: each is an entry of its own."""
LONGEST_LABEL, LONGEST_FACT, LONGEST_PARAMETERS = 4_000, 2_000, 100_000
"""The most characters of a label, of a fact in `info`, and of all parameters as JSON."""


def check_sound(component: Component) -> None:
    """Raise `PluginError` for a component that no plan can have; the registry then leaves it out, and names it.

    Its label must begin with its id; its label and every text in its `info` must be one plain line; its parameters must
    be finite, hashable and JSON. The same holds for each component of its parameter study, of which there are at most
    `MOST_VARIANTS`. What the component's own code raises becomes a `PluginError`, too.
    """
    cls, who = type(component), component.info.id
    try:
        for text in texts_in([component.control, component.info.model_dump(mode="json", exclude={"grid"})]):
            _check_text(text, f"{who}: a text in its info", LONGEST_FACT)
        for variant in (component, *_variants(component)):
            check_parameters(variant)
    except PluginError:
        raise
    except ValidationError as error:
        raise PluginError(f"{who}: its parameter study: {explain(error, cls)}") from None
    except (Exception, SystemExit) as error:
        raise PluginError(f"{who} cannot be planned with: {type(error).__name__}: {reason(error)}") from None


def check_parameters(component: Component) -> None:
    """Raise `PluginError` for parameters of which no label or digest can be made."""
    who, label = component.info.id, component.label
    if not isinstance(label, str) or id_of(label) != who:
        raise PluginError(f"{who}: its label {str(label)!r:.80} does not begin with its id; do not override label")
    _check_text(label, f"{who}: its label", LONGEST_LABEL)
    try:
        text = canonical_json(component.model_dump(mode="json"))
        text.encode()
        if component.kind in SELECTABLE:  # these are parts of tasks
            hash(component)
    except (ValueError, TypeError) as error:
        hint = "use finite numbers, texts and tuples"
        raise PluginError(f"{who}: its parameters have no digest: {reason(error)}; {hint}") from None
    if len(text) > LONGEST_PARAMETERS:
        raise PluginError(f"{who}: parameters of {len(text)} characters; at most {LONGEST_PARAMETERS} are allowed")


def _variants(component: Component) -> Iterator[Component]:
    """Yield the components of a parameter study; a grid is counted before any of them is made."""
    many = f"{component.info.id}: a parameter study of more than {MOST_VARIANTS} values"
    if sum(map(len, getattr(component.info, "grid", {}).values())) > MOST_VARIANTS:
        raise PluginError(many)
    variants = component.variants()
    if len(variants) > MOST_VARIANTS:
        raise PluginError(many)
    for variant in variants:
        if not isinstance(variant, type(component)):
            raise PluginError(f"{component.info.id}: variants() must return components of its own class")
        yield variant


def _check_text(text: str, what: str, longest: int) -> None:
    if len(text) > longest:
        raise PluginError(f"{what} has {len(text)} characters; at most {longest} are allowed")
    if not is_plain(text):
        raise PluginError(f"{what} contains a line break, control or direction character: {text!r:.80}")
