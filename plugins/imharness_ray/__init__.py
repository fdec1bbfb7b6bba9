"""Computes tasks on a Ray cluster: ``harness run --executor ray``.

`settings.py` holds the options, `executor.py` the pool of workers that a run uses, `cluster.py` the calls of Ray,
`actor.py` and `remote_worker.py` a worker on its node, `parity.py` the check that all nodes have the same code, and
`entry_point.py` what the command line finds first.
"""
