"""Building blocks that several plugin packages share, and no plugin: networks, loading of weights, optimisers."""
