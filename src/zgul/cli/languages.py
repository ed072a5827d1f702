"""``zgul languages`` and ``zgul relate``."""
