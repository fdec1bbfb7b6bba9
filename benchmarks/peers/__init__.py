"""Works that this harness and other libraries do alike, timed side by side in one process.

``python -m benchmarks peers`` installs the libraries into an environment of its own and prints, for each work, the
time, the fastest peer, how many times faster ours is, and how far the two results are apart.
"""
