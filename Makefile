# Each target does all of its own set-up: Python 3.11 or newer with pip is enough.
#   make test ARGS="-k timeout -x"     passes words on to pytest
#   make setup PYTHON=python3.13       chooses the interpreter of the environment

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
# openai 3 and llama-index-llms-openai refuse each other: this pair has its own home.
VENV2 := .venv-openai2
READY2 := $(VENV2)/.ready
# mutmut brings a parser and a screen of its own, which nothing else here needs.
VENV3 := .venv-mutants
READY3 := $(VENV3)/.ready
ARGS ?=
# What tests put into images, where it would be compiled for each; with templates that
# are no Python, and passed over.
IN_IMAGES := numpy pandas matplotlib fontTools
# Without it each of the workers, and each program that a test starts, would compile
# everything anew.
unexport PYTHONDONTWRITEBYTECODE
# Most tests wait for boxes half of their time: more of them than processors.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 2 )))
IN_PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# What is said of the packages of which two releases live; the rest is for `verify`.
OPENAI2 := tests/test_scripted.py $(addprefix tests/adapters/test_,openai.py \
	openai_agents.py openai_llmock.py openai_loop.py openai_loop_streams.py \
	llama_index.py llama_index_code_act.py llama_index_openai.py mcp.py mcp_stdio.py)
OPENAI2_WHOLE := tests/test_scripted.py $(wildcard tests/adapters/test_openai*.py \
	tests/adapters/test_llama_index*.py tests/adapters/test_mcp*.py)
WHOLE := HYPOTHESIS_PROFILE=verify
MEASURED := -m 'not vm and not model and not cluster' -o timeout=0 \
	-o faulthandler_timeout=0

# The first that runs and is new enough: a version manager's shim may exist and fail.
PYTHON ?= $(firstword $(shell for python in \
	python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done))

.PHONY: help setup setup-openai2 compile-tests demo test test-openai2 verify-test verify-openai2 verify-vm lint lint-ruff lint-mypy lint-pyright format bench soak test-envs test-vm test-cluster test-model verify verify-attack coverage mutants clean

help:
	@echo "make setup    the environment in $(VENV), with everything below needs"
	@echo "make demo     six calls through three frameworks, on real data"
	@echo "make test     the tests, but for those that need a virtual machine"
	@echo "make test-openai2  the adapters with openai 2 and mcp 1"
	@echo "make test-vm  the memory cap for real, in a virtual machine"
	@echo "make test-cluster  sandboxes on a Ray cluster of two nodes, on loopback"
	@echo "make test-model  the loops with a real small model, offline; fetches 1.1 GB once"
	@echo "make lint     ruff, mypy --strict, pyright"
	@echo "make bench    the figures of README.md"
	@echo "make soak     ten thousand calls, 256 conversations; minutes"
	@echo "make test-envs  the contracts on other Pythons, on the oldest and newest packages"
	@echo "make verify-attack  the attacks whole: ten thousand examples of each property"
	@echo "make coverage  the lines and branches that no test reaches; long"
	@echo "make mutants  mutation check of what models and developers rely on most; long"
	@echo "make verify   everything, whole: lint, tests, openai 2, virtual machine, cluster"
	@echo "make clean    remove what the targets made, environments included"

setup: $(READY)
	@echo "$(VENV) is ready."

# Debian splits ensurepip off; pip can then install itself from outside. uv takes a
# tenth of pip's time, and does not know of an index that pip's own settings name.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer on PATH; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing into $(VENV) with $(PYTHON); the first time may take minutes."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	|| $(PYTHON) -m venv $(VENV) 2>/dev/null \
	|| { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	&& $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@$(BIN)/python -m pip install --quiet --no-compile uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]' \
	|| $(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	@touch $@

setup-openai2: $(READY2)

# A path line lends it what $(VENV) has; installed on top is what has to differ, and
# what brings a program of its own: pytest, this package, and the binary.
$(READY2): pyproject.toml $(READY)
	@$(BIN)/python -m venv --clear --without-pip $(VENV2)
	@lent=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	&& own=$$($(VENV2)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	&& echo "import site; site.addsitedir('$$lent')" >"$$own/lent.pth"
	@$(BIN)/uv pip install --quiet --python $(VENV2)/bin/python --no-deps \
	--no-build-isolation pytest kern-sandbox --editable . \
	|| $(BIN)/python -m pip --python $(VENV2)/bin/python install --quiet --no-deps \
	--ignore-installed --no-build-isolation pytest kern-sandbox --editable .
	@$(BIN)/python -m pip --python $(VENV2)/bin/python install --quiet --no-compile \
	'openai<3' 'openai-agents>=0.20' 'llama-index-llms-openai>=0.8' 'mcp<2'
	@$(BIN)/python -m pip --python $(VENV2)/bin/python check
	@touch $@

compile-tests: $(COMPILED)

# What tests import, and themselves, in the way of pytest: once, before several workers
# would each do it. Most modules that packages bring are imported by nobody.
$(COMPILED): $(READY)
	@cd "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	&& $(abspath $(BIN))/python -m compileall -qq -j 0 -x /tests/ $(IN_IMAGES) || :
	@$(BIN)/pytest --collect-only --quiet >/dev/null
	@touch $@

demo: $(READY)
	$(BIN)/kern-tools demo $(ARGS)

test: $(COMPILED)
	$(BIN)/pytest $(IN_PARALLEL) $(ARGS)

# Two workers: `.ci/run` has the virtual machine run beside it.
test-openai2: $(READY2)
	$(VENV2)/bin/pytest -n 2 --dist loadfile $(OPENAI2) $(ARGS)

test-vm: $(READY)
	$(BIN)/pytest tests/vm -m 'vm and not verify' -o faulthandler_timeout=0 $(ARGS)

test-cluster: $(READY)
	$(BIN)/pytest tests/cluster -m cluster $(ARGS)

test-model: $(READY) $(READY2)
	$(BIN)/pytest tests/model -m model -v -o faulthandler_timeout=0 $(ARGS)
	$(VENV2)/bin/pytest tests/model/test_llama_index.py -m model -v \
	-o faulthandler_timeout=0 $(ARGS)

verify-attack: $(READY)
	HYPOTHESIS_PROFILE=verify $(BIN)/pytest tests/attack -n auto --dist load \
	-m "not vm and not model" -o timeout=0 -o faulthandler_timeout=0 $(ARGS)

# Some tests start programs under another account: these write their part too. The
# parts count also where a test failed, as some do that are about speed or modules.
coverage: $(COMPILED) $(READY2)
	@parts=$$(mktemp -d) && chmod 1777 "$$parts" && export COVERAGE_FILE="$$parts/.coverage"; \
	$(BIN)/coverage run -m pytest $(IN_PARALLEL) $(MEASURED) $(ARGS); \
	$(BIN)/coverage run -m pytest tests/cluster -m cluster -o timeout=0; \
	$(VENV2)/bin/python -m coverage run -m pytest $(IN_PARALLEL) $(MEASURED) \
	$(OPENAI2_WHOLE); \
	COVERAGE_FILE=.coverage $(BIN)/coverage combine --quiet "$$parts"; rm -rf "$$parts"
	$(BIN)/coverage report --skip-covered

mutants: $(READY3)
	$(VENV3)/bin/python -m tests.mutants $(ARGS)

$(READY3): $(READY)
	@$(BIN)/python -m venv --without-pip $(VENV3)
	@$(BIN)/python -m pip --python $(VENV3)/bin/python install --quiet 'mutmut>=3.8,<4'
	@$(VENV3)/bin/python -c "import site, pathlib; \
	pathlib.Path(site.getsitepackages()[0], 'kept.pth').write_text( \
	str(next(pathlib.Path('$(VENV)').resolve().glob('lib/python3*/site-packages'))))"
	@touch $@

# `make -j 3 lint` has the three side by side.
lint: lint-ruff lint-mypy lint-pyright

lint-ruff: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-mypy: $(READY)
	$(BIN)/mypy

lint-pyright: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m tests.bench $(ARGS)

soak: $(READY)
	$(BIN)/python -m tests.soak

test-envs: $(READY)
	$(BIN)/python -m tests.environments $(ARGS)

# The three that `.ci/run` runs a part of, whole.
verify-test: $(COMPILED)
	$(WHOLE) $(BIN)/pytest $(IN_PARALLEL) -m 'not vm and not model and not cluster' \
	-o timeout=0 -o faulthandler_timeout=0 $(ARGS)

verify-openai2: $(READY2)
	$(WHOLE) $(VENV2)/bin/pytest $(IN_PARALLEL) $(OPENAI2_WHOLE) \
	-m 'not vm and not model and not cluster' $(ARGS)
	$(VENV2)/bin/pytest tests/test_cookbooks.py -m 'verify or not verify' \
	-k 'runs and (05 or 06)'

verify-vm: $(READY)
	$(BIN)/pytest tests/vm -m vm -o faulthandler_timeout=0 $(ARGS)

verify:
	.ci/run whole

clean:
	rm -rf .venv .venv-openai2 .venv-mutants build dist *.egg-info htmlcov .coverage .coverage.*
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
