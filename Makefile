# Two commands on a fresh machine: make demo, make test. Both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USE := $(VENV)/.use
DEV := $(VENV)/.dev

.PHONY: demo test lint bench bench-paper bench-peers clean

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

bench: $(DEV)
	$(BIN)/python -m bench.owner
	$(BIN)/python -m bench.training
	$(BIN)/python -m bench.auxiliary
	$(BIN)/python -m bench.engines

bench-paper: $(DEV)
	$(BIN)/python -m bench.paper

bench-peers: $(DEV)
	$(BIN)/python -m bench.peers

clean:
	rm -rf $(VENV) demo build dist
