# Two commands on a fresh machine: make demo, make test. Both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USE := $(VENV)/.use
DEV := $(VENV)/.dev
COMMA := ,

PIP := $(BIN)/pip install --quiet
LOCKED ?= yes

.PHONY: demo test lint bench bench-paper bench-peers fuzz lock audit-deps clean

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
	rm -rf $(VENV) $(VENV)-audit demo build dist
