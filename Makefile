# Each target does all of its own set-up: Python 3.11 or newer with pip is enough.
#   make test ARGS="-k timeout -x"     passes words on to pytest
#   make setup PYTHON=python3.13       chooses the interpreter of the environment

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# openai 3 and llama-index-llms-openai refuse each other: this pair has its own home.
VENV2 := .venv-openai2
READY2 := $(VENV2)/.ready
ARGS ?=

# The first that runs and is new enough: a version manager's shim may exist and fail.
PYTHON ?= $(firstword $(shell for python in \
	python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done))

.PHONY: help setup setup-openai2 demo test lint format bench soak test-vm test-model verify clean

help:
	@echo "make setup    the environment in $(VENV), with everything below needs"
	@echo "make demo     six calls through three frameworks, on real data"
	@echo "make test     the tests, but for those that need a virtual machine"
	@echo "make test-vm  the memory cap for real, in a virtual machine"
	@echo "make test-model  the loops with a real small model, offline; fetches 1.1 GB once"
	@echo "make lint     ruff, mypy --strict, pyright"
	@echo "make bench    the figures of README.md"
	@echo "make soak     ten thousand calls, 256 conversations; minutes"
	@echo "make verify   everything: lint, tests, openai 2, virtual machine"
	@echo "make clean    remove what the targets made, environments included"

setup: $(READY)
	@echo "$(VENV) is ready."

# Debian splits ensurepip off; pip can then install itself from outside.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer on PATH; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing into $(VENV) with $(PYTHON); the first time takes minutes."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	|| $(PYTHON) -m venv $(VENV) 2>/dev/null \
	|| { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	&& $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

setup-openai2: $(READY2)

$(READY2): pyproject.toml $(READY)
	@$(BIN)/python -m venv --without-pip $(VENV2)
	@$(BIN)/python -m pip --python $(VENV2)/bin/python install --quiet pip \
	--editable '.[all,testing]' 'openai<3' 'llama-index-llms-openai>=0.8' 'mcp<2' \
	hypothesis ipykernel jsonschema matplotlib nbclient nbformat pandas pytest-asyncio pytest-timeout pytest-xdist
	@touch $@

demo: $(READY)
	$(BIN)/kern-tools demo $(ARGS)

test: $(READY)
	$(BIN)/pytest -n auto --dist loadfile $(ARGS)

test-vm: $(READY)
	$(BIN)/pytest tests/vm -m vm $(ARGS)

test-model: $(READY) $(READY2)
	$(BIN)/pytest tests/model -m model -v -o faulthandler_timeout=0 $(ARGS)
	$(VENV2)/bin/pytest tests/model/test_llama_index.py -m model -v \
	-o faulthandler_timeout=0 $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m tests.bench $(ARGS)

soak: $(READY)
	$(BIN)/python -m tests.soak

verify:
	.ci/run

clean:
	rm -rf .venv .venv-openai2 build dist *.egg-info htmlcov .coverage .coverage.*
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
