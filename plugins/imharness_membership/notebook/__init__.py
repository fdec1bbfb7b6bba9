"""What the package offers to `import imharness as ih`: `audit` and `audit_one_run`, by entry points."""
