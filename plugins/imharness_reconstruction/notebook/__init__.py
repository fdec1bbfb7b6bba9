"""What the package adds to `import imharness as ih`."""
