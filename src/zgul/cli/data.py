"""``zgul data``."""
