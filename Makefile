# make tag        install and tag a sample of two languages that the encoder has never seen
# make serve      install, start the service and open its page (ARGS=options, such as ARGS="--port 9000")
# make test       install and run the quick tests, in less than five minutes (WORKERS=processes side by side)
# make test-slow  run the slow tests
# make test-web   run the tests of the page in a real browser (installs Chromium on Debian if root)
# make screenshots  take the pictures of the page in docs/images again
# make coverage   run all tests and show which lines they miss
# make lint       check style, format and types
# make format     mend style and format where that can be done by itself
# make scores     F1 of the shipped taggers on the paper's test files, beside the paper's (DATA=their folder)
# make bench      speed against the peers on this machine's CPU, a quarter of an hour (DATA=folder with the test files)
# make recipe     train and ship all of them again, on a GPU machine (DATA=raw data, OUT=folder for the runs)
# make oracle     record again what the library `adapters` computes, for the tests to compare with
# make clean      remove the virtual environments and everything built

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.dev-ready
SERVE  := $(VENV)/.serve-ready
WEB    := $(VENV)/.web-ready
ORACLE := .venv-oracle
DATA   ?= ../shared/data
OUT    ?= runs/embedded
WORKERS ?= 2
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help tag serve test test-slow test-web screenshots coverage lint format scores bench recipe oracle clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV); the first time this takes a minute or two ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(SERVE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV), with what the service needs; the first time this takes a minute or two ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[serve]"
	@touch $@ $(READY)

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV), with what the tests need; the first time this takes a minute or two ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@ $(READY) $(SERVE)

# a browser, fonts for the scripts of the examples, and what drives the browser
BROWSER := chromium fonts-noto-core
$(WEB): $(DEV)
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
			echo "Installing $(BROWSER) ..." && apt-get -qq update && apt-get -qq install --yes --no-install-recommends $(BROWSER) > /dev/null; \
		else echo "The tests of the page need Chromium. As root: apt-get install $(BROWSER)" && exit 1; fi; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[web]"
	@touch $@

tag: $(READY)
	@echo; echo "A tagger that learnt from English, Icelandic and German reads Faroese, which it has never seen:"; echo
	@$(BIN)/zgul tag --lang fo --format terminal "Skipið fór úr Havn í morgun og kom til Klaksvíkar."
	@echo; echo "One that learnt from English, Amharic, Swahili and Wolof looks for names in Luo:"; echo
	@$(BIN)/zgul tag --lang luo --format terminal "Japuonj Grace Akinyi nobiro Kisumu tarik 12 Mei."
	@echo; echo "Now your own text:  $(BIN)/zgul tag --lang NAME \"some text\"  (or a file; $(BIN)/zgul tag --help)"

serve: $(SERVE)
	@$(BIN)/zgul serve $(ARGS)

test: $(DEV)
	$(PYTEST) -m "not slow and not web"

test-slow: $(DEV)
	$(PYTEST) -m slow

test-web: $(WEB)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m web tests/web

screenshots: $(WEB)
	OMP_NUM_THREADS=1 $(BIN)/python scripts/screenshots.py

coverage: $(DEV)
	$(PYTEST) -m "not web" --cov --cov-report=term:skip-covered

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

scores: $(READY)
	@$(BIN)/python scripts/scores.py --data $(DATA)

bench: $(DEV) $(ORACLE)/.ready
	$(BIN)/python -m benchmarks --data $(DATA) --output docs/results/performance
	$(BIN)/python -m benchmarks --report docs/results/performance

recipe: $(READY)
	$(BIN)/python scripts/recipe.py --data $(DATA) --output $(OUT)

# `adapters` needs an older transformers than our tests do, so it has an environment of its own
$(ORACLE)/.ready: constraints.txt Makefile
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		torch safetensors rich transformers==4.57.6 adapters==1.3.0
	@touch $@

oracle: $(ORACLE)/.ready
	PYTHONPATH=src $(ORACLE)/bin/python scripts/oracle.py

clean:
	rm -rf $(VENV) $(ORACLE) build dist src/*.egg-info .coverage .hypothesis .pytest_cache .mypy_cache .ruff_cache
