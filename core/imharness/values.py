"""For people who write a contract: how a component is called, and the kinds of values that go in and come out."""

from imharness.contracts.call import Call
from imharness.contracts.component import Component, Info
from imharness.contracts.values import (
    GENERATOR,
    GRADIENTS,
    IMAGES,
    NUMBER,
    PROBABILITIES,
    SAME_IMAGES,
    SCORES,
    STREAMS,
    TARGETS,
    Record,
    Rows,
    Several,
    ValueKind,
)

__all__ = [
    "GENERATOR",
    "GRADIENTS",
    "IMAGES",
    "NUMBER",
    "PROBABILITIES",
    "SAME_IMAGES",
    "SCORES",
    "STREAMS",
    "TARGETS",
    "Call",
    "Component",
    "Info",
    "Record",
    "Rows",
    "Several",
    "ValueKind",
]
