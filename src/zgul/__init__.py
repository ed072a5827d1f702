"""zgul: tag text in languages that no pretrained model has seen.

Implements "ZGUL: Zero-shot Generalization to Unseen Languages using Multi-source Ensembling of
Language Adapters" (Rathore et al., EMNLP 2023) and the methods it compares with.
"""

__version__ = "0.1.0"
