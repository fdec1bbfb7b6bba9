"""For people whose track answers the questions of notebooks: `imharness.audit`, `audit_one_run`, `reconstruct`."""

from imharness.contracts.model_audit import (
    AuditAnswer,
    AuditRequest,
    AuditSubject,
    Estimate,
    Finding,
    GivenOutputs,
    GivenReferences,
    Likeness,
    ModelAudit,
    Risk,
)
from imharness.contracts.one_run import CanaryScores, LowerBound, OneRunBounds
from imharness.contracts.shared_gradients import Reconstructed, SharedGradients

__all__ = [
    "AuditAnswer",
    "AuditRequest",
    "AuditSubject",
    "CanaryScores",
    "Estimate",
    "Finding",
    "GivenOutputs",
    "GivenReferences",
    "Likeness",
    "LowerBound",
    "ModelAudit",
    "OneRunBounds",
    "Reconstructed",
    "Risk",
    "SharedGradients",
]
