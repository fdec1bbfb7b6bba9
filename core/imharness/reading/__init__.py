"""The only place that reads files of users and strangers.

Each function opens only plain files, bounds what it reads before it allocates memory, refuses files that are not what
they claim to be, and raises an `imharness.errors.UsageError` of one line that names the file.
"""
