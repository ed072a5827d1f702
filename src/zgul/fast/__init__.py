"""The fast engine: the same numbers as the plain code, sooner. `zgul.fast.engine` is the one way in."""
