# Two commands on a fresh machine: make demo, make test. Both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USE := $(VENV)/.use
DEV := $(VENV)/.dev

.PHONY: demo test lint docs bench bench-paper bench-peers soak wheel smoke versions clean

$(USE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,report]'
	touch $@

$(DEV): $(USE)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(USE)
	rm -rf demo
	$(BIN)/dpearl demo demo

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(DEV)
	$(BIN)/python -m handbook
	$(BIN)/python -m mkdocs build --strict

bench: $(DEV)
	$(BIN)/python -m bench.owner
	$(BIN)/python -m bench.training
	$(BIN)/python -m bench.auxiliary
	$(BIN)/python -m bench.engines
	$(BIN)/python -m bench.startup

bench-paper: $(DEV)
	$(BIN)/python -m bench.paper

bench-peers: $(DEV)
	$(BIN)/python -m bench.peers

soak: $(DEV)
	$(BIN)/python -m bench.soak

# The same sources give the same bytes: times in the wheel are that of the last commit.
wheel: $(DEV)
	rm -rf build dist
	umask 022; export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); \
	  $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# The wheel in an environment that holds nothing else, with every Python from 3.11 on that is here: the owner's side, without torch.
PYTHONS ?= $(wildcard $(HOME)/.pyenv/versions/3.1[1-9]*/bin/python) $(shell command -v python3.11 python3.12 python3.13 python3.14)
smoke: PYTHONS = $(PYTHON)
smoke versions: wheel
	set -e; for python in $(PYTHONS); do \
	  $$python -c pass 2>/dev/null || continue; \
	  folder=$$(mktemp -d); \
	  $$python -m venv $$folder/venv; \
	  $$folder/venv/bin/pip install --quiet --constraint constraints.txt dist/*.whl; \
	  mkdir $$folder/work; \
	  $$folder/venv/bin/python tests/smoke.py $$folder/work; \
	  rm -rf $$folder; \
	done

clean:
	rm -rf $(VENV) demo build dist site
