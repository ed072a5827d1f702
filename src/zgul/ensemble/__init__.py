"""How the adapters of the bank are weighted and mixed: fusion, lang2vec and entropy minimisation."""
