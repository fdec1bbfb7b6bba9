"""Building blocks that several plugin packages share: networks, loading of their weights, optimisers. No plugin."""
