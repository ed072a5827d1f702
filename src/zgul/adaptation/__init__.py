"""Adapt a shipped tagger to a language, from raw text of it or a few labelled sentences: `zgul adapt`, `zgul.adapt`."""
