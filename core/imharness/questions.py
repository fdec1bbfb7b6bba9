"""For people whose track answers the questions of notebooks: `imharness.audit` and `imharness.reconstruct`."""

from imharness.contracts.model_audit import (
    AuditAnswer,
    AuditRequest,
    AuditSubject,
    Estimate,
    Finding,
    GivenOutputs,
    ModelAudit,
    Risk,
)
from imharness.contracts.shared_gradients import Reconstructed, SharedGradients

__all__ = [
    "AuditAnswer",
    "AuditRequest",
    "AuditSubject",
    "Estimate",
    "Finding",
    "GivenOutputs",
    "ModelAudit",
    "Reconstructed",
    "Risk",
    "SharedGradients",
]
