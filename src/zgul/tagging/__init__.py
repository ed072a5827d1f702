"""A trained tagger in use: which one serves a language, text in, tags out, files, evaluation, spaCy, ONNX.

`zgul.load` makes a tagger. Nothing is imported here, because what only asks which tagger serves a language
(`zgul.tagging.serving`) needs no torch.
"""
