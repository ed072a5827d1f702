"""A trained method in use: predict, save, load."""

from zgul.tagger.saved import load_tagger, save_tagger
from zgul.tagger.tagger import Prediction, Tagger

__all__ = ["Prediction", "Tagger", "load_tagger", "save_tagger"]
