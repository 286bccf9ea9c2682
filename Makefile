# Two commands on a fresh machine: make demo, make test. Both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USE := $(VENV)/.use
DEV := $(VENV)/.dev
COMMA := ,

PIP := $(BIN)/pip install --quiet
LOCKED ?= yes

.PHONY: demo test lint docs notebooks bench bench-paper bench-peers soak mutants attacks fuzz wheel smoke versions lock audit-deps clean

# Whatever pip takes has a hash in lock/. Where a platform needs more than is locked (a build of torch for CUDA does), the rest comes
# at the versions of constraints.txt, and make says so. `make demo LOCKED=no` goes by versions alone.
ifeq ($(LOCKED),yes)
define install
$(PIP) --require-hashes --no-deps --no-build-isolation $(1:%=--requirement lock/%.txt)
$(PIP) --no-index --no-build-isolation --editable '.[$(2)]' || { \
	echo "This platform needs more than is locked; the rest comes without hashes."; \
	$(PIP) --constraint constraints.txt --editable '.[$(2)]'; }
endef
else
define install
$(PIP) --constraint constraints.txt --editable '.[$(2)]'
endef
endif

$(USE): pyproject.toml constraints.txt lock/build.txt lock/use.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,build use,train$(COMMA)report)
	touch $@

$(DEV): $(USE) lock/dev.txt
	$(call install,dev,dev)
	touch $@

demo: $(USE)
	rm -rf demo
	$(BIN)/dpearl demo demo

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Matrices of tests are too small to share out, and threads that wait for each other on busy cores double the time.
test: export OMP_NUM_THREADS = 1
test: lint
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(DEV)
	$(BIN)/python -m handbook
	$(BIN)/python -m mkdocs build --strict

notebooks: $(DEV)
	$(BIN)/python examples

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

soak: $(DEV)
	$(BIN)/python -m bench.soak

mutants: $(DEV)
	$(BIN)/python -m bench.mutants

attacks: $(DEV)
	$(BIN)/python -m bench.audit
	$(BIN)/python -m bench.attacks

fuzz: $(DEV)
	$(PIP) --require-hashes --no-deps --requirement lock/fuzz.txt
	$(BIN)/python -m bench.fuzz

lock: $(DEV)
	$(BIN)/python -m bench.lock

# Known vulnerabilities of what is pinned, asked of a public service; the tool lives in an environment of its own.
audit-deps:
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/pip install --quiet pip-audit
	$(VENV)-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

clean:
	rm -rf $(VENV) $(VENV)-audit demo build dist site
