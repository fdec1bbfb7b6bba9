"""The harness for notebooks and scripts: evaluate an object of one's own in a few lines, with ``import imharness``."""

OFFERS = {
    "Audit": "audit",
    "Result": "result",
    "attack": "objects",
    "audit": "audit",
    "compare": "compare",
    "defense": "objects",
    "evaluate": "evaluate",
    "evaluator": "objects",
    "load": "load",
    "metric": "objects",
    "reconstruct": "reconstruct",
    "run": "run",
    "score": "score",
}
"""What `imharness` offers beside its modules: name -> the module here that has it, loaded when the name is used."""
