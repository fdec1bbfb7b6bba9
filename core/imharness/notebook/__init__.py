"""The harness for notebooks and scripts: evaluate your own object in a few lines, with ``import imharness``."""

OFFERS = {
    "Audit": "audit",
    "OneRunAudit": "one_run",
    "PublishedBoard": "published",
    "Result": "result",
    "attack": "objects",
    "audit": "audit",
    "audit_one_run": "one_run",
    "compare": "compare",
    "defense": "objects",
    "evaluate": "evaluate",
    "evaluator": "objects",
    "load": "load",
    "load_board": "published",
    "metric": "objects",
    "reconstruct": "reconstruct",
    "run": "run",
    "score": "score",
}
"""What `imharness` offers besides its modules: name -> the module here that defines it, loaded when it is used."""
