"""The fast engine: computes the same numbers as the plain code, faster.

`engine.engine(model, device)` is the way in. `graphs.GraphedStep` replays training steps, and `adaptive.AdaptiveEM` is
a rule for those who choose EM settings. Nothing else here is for other parts.
"""
