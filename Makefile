# make tag    install and tag a sample in an unseen language
# make test   install and run the tests
# make oracle record again what the library `adapters` computes, for the tests to compare with
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.dev-ready
ORACLE := .venv-oracle

.PHONY: tag test lint format oracle clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@ $(READY)

tag: $(READY)
	@$(BIN)/zgul languages fo

test: $(DEV)
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# `adapters` needs an older transformers than zgul does, so it has an environment of its own
$(ORACLE)/.ready: constraints.txt Makefile
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		torch safetensors transformers==4.57.6 adapters==1.3.0
	@touch $@

oracle: $(ORACLE)/.ready
	PYTHONPATH=src $(ORACLE)/bin/python scripts/oracle.py

clean:
	rm -rf $(VENV) $(ORACLE) build dist .pytest_cache .mypy_cache .ruff_cache
