# make tag        install and tag a sample of two languages that have no labelled data here
# make serve      install, start the service and open its page (ARGS=options, such as ARGS="--port 9000")
# make test       install and run the quick tests, in less than five minutes (WORKERS=processes side by side)
# make test-slow  run the slow tests
# make test-web   run the tests of the page in a real browser (installs Chromium on Debian if root)
# make docs       build the documentation site into build/site; every link and anchor is checked
# make screenshots take the pictures of the page in docs/images again
# make coverage   run all tests and show which lines they miss
# make lint       check style, format and types
# make format     fix style and format where ruff can do it
# make scores     score the shipped taggers on the paper's test files, beside the paper's F1 (DATA=folder with the files)
# make bench      compare speed with other implementations on this CPU, in 15 minutes (DATA=folder with the test files)
# make peers      train UDPipe and spaCy on the shipped taggers' sentences and write docs/peers.md, in about an hour and a half (DATA)
# make recipe     train all shipped adapters and taggers again, on a GPU machine (DATA=raw data, OUT=folder for the runs)
# make fuzz       give 100,000 damaged or hostile inputs to each reader, in minutes (CASES=fewer)
# make chaos      kill each kind of work at 30 random moments, and a cluster; continue, compare the files (KILLS=fewer)
# make dist       build wheel and sdist twice, bit for bit equal, and tag with the wheel without a network
# make lock       choose the newest versions of all dependencies and write their checksums to requirements/
# make audit      look for known vulnerabilities in the locked dependencies (needs a network)
# make oracle     record the outputs of the library `adapters` again; the tests compare zgul with them
# make clean      remove the virtual environments and everything built

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.dev-ready
SERVE  := $(VENV)/.serve-ready
WEB    := $(VENV)/.web-ready
DOCS   := $(VENV)/.docs-ready
ORACLE := .venv-oracle
PEERS  := .venv-peers
DATA   ?= ../shared/data
OUT    ?= runs/embedded
WORKERS ?= 2
CASES  ?= 100000
KILLS  ?= 30
PIP    = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Checksums of everything but torch, whose build depends on the machine: constraints.txt has its version.
LOCKED = $(PIP) --require-hashes --no-deps --no-build-isolation
LOCK   := .venv-lock
COMPILE = $(LOCK)/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --unsafe-package torch \
	--all-build-deps --strip-extras --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host --no-emit-options --constraint constraints.txt pyproject.toml
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help tag serve test test-slow test-web docs screenshots coverage lint format fuzz chaos dist lock audit scores \
	bench peers recipe oracle clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt requirements/run.lock | $(BIN)/python
	@echo "Installing into $(VENV); the first time this takes a minute or two ..."
	@$(LOCKED) -r requirements/run.lock
	@$(PIP) -c constraints.txt torch
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(SERVE): $(READY) requirements/serve.lock
	@echo "Installing the packages for the service ..."
	@$(LOCKED) -r requirements/serve.lock
	@touch $@

# build.lock goes first: a package that comes as source is built with what is installed
$(DEV): $(SERVE) requirements/build.lock requirements/dev.lock
	@echo "Installing the packages for tests ..."
	@$(LOCKED) -r requirements/build.lock
	@$(LOCKED) -r requirements/dev.lock
	@touch $@

# a browser, fonts for the scripts of the examples, and what drives the browser
BROWSER := chromium fonts-noto-core
$(WEB): $(DEV) requirements/web.lock
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
			echo "Installing $(BROWSER) ..." && apt-get -qq update && apt-get -qq install --yes --no-install-recommends $(BROWSER) > /dev/null; \
		else echo "The tests of the page need Chromium. As root: apt-get install $(BROWSER)" && exit 1; fi; }
	@$(LOCKED) -r requirements/web.lock
	@touch $@

$(DOCS): $(DEV) requirements/docs.lock
	@echo "Installing the packages for the documentation ..."
	@$(LOCKED) -r requirements/docs.lock
	@touch $@

tag: $(READY)
	@echo; echo "A tagger that learnt from Icelandic, German and other relatives reads Faroese, of which it saw no labelled text:"; echo
	@$(BIN)/zgul tag --lang fo --format terminal "Skipið fór úr Havn í morgun og kom til Klaksvíkar."
	@echo; echo "A tagger that learnt from Swahili, Wolof and other languages looks for names in Luo:"; echo
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

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site is in build/site. Open build/site/index.html"

screenshots: $(WEB)
	OMP_NUM_THREADS=1 $(BIN)/python scripts/screenshots.py
	$(BIN)/python scripts/terminal_picture.py

coverage: $(DEV)
	$(PYTEST) -m "not web" --cov --cov-report=term:skip-covered

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(DEV)
	$(BIN)/python -m reliability fuzz --cases $(CASES) --workers $(WORKERS)

chaos: $(DEV)
	$(BIN)/python -m reliability chaos --kills $(KILLS)
	$(BIN)/python -m reliability cluster

dist: $(DEV)
	$(BIN)/python -m reliability dist

# The time goes into asking for the checksums of all files, a few minutes.
$(LOCK)/.ready: Makefile
	$(PYTHON) -m venv $(LOCK)
	$(LOCK)/bin/python -m pip install --quiet --disable-pip-version-check pip-tools pip-audit
	@touch $@

lock: $(LOCK)/.ready
	$(COMPILE) --output-file requirements/run.lock
	$(COMPILE) --constraint requirements/run.lock --extra serve --output-file requirements/serve.lock
	$(COMPILE) --constraint requirements/serve.lock --extra build --output-file requirements/build.lock
	$(COMPILE) --constraint requirements/serve.lock --extra serve --extra dev --output-file requirements/dev.lock
	$(COMPILE) --constraint requirements/dev.lock --extra serve --extra dev --extra web --output-file requirements/web.lock
	$(COMPILE) --constraint requirements/web.lock --extra serve --extra dev --extra web --extra docs --output-file requirements/docs.lock
	sed -i '/^# The following packages/,$$d' requirements/*.lock

audit: $(LOCK)/.ready
	$(LOCK)/bin/pip-audit --strict --disable-pip --no-deps -r requirements/docs.lock

scores: $(READY)
	@$(BIN)/python scripts/scores.py --data $(DATA)

bench: $(DEV) $(ORACLE)/.ready
	$(BIN)/python -m benchmarks --data $(DATA) --output docs/results/performance
	$(BIN)/python -m benchmarks --report docs/results/performance

# the peers need other versions than ours, and zgul must not see them
$(PEERS)/.ready: requirements/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/peers.txt
	@touch $@

# What is stored in docs/results/peers is not run again: remove a file there to run its part again.
peers: $(READY) $(PEERS)/.ready
	$(BIN)/python -m peers run --data $(DATA)
	$(BIN)/python -m peers speed --data $(DATA)
	$(BIN)/python -m peers check --data $(DATA)
	$(BIN)/python -m peers report

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
	rm -rf $(VENV) $(ORACLE) $(PEERS) $(LOCK) build dist src/*.egg-info .coverage .hypothesis .pytest_cache .mypy_cache .ruff_cache
