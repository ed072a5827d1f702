"""The fast engine: computes the same numbers as the plain code, faster.

`engine.engine(model, device)` is the way in. Other parts also use `graphs.GraphedStep` (training steps),
`adaptive.AdaptiveEM` (a rule for EM settings), `int8` (ONNX files) and `stored` (folded models on disk).
`tests/test_architecture.py` has the list. Nothing else here is for other parts.
"""
