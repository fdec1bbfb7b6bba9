"""Full-reference metrics, one per file; other tracks find them in the registry."""
