"""Use taggers: find the tagger for a language, tag text and files, evaluate, export to ONNX, plug into spaCy.

`zgul.load` makes a tagger. Nothing is imported here, because `zgul.tagging.serving`, which finds the tagger for a
language, needs no torch.
"""
