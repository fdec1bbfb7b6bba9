"""The one place that reads files of users and strangers.

Each function opens plain files only, bounds what it reads before it allocates memory, takes nothing that is not what
it says, and raises `imharness.errors.UsageError` with one line that names the file.
"""
