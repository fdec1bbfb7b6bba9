"""Computes tasks on a Ray cluster: ``harness run --executor ray``.

`settings.py` holds the options, `executor.py` the pool of workers as the run sees it, `cluster.py` what is asked of
Ray, `actor.py` and `seat.py` a worker on its node, `alike.py` what must be equal on all nodes.
"""
