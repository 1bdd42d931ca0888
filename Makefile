# Everything here works on a machine with only Python 3.11+ and make: each target sets up what it needs.
# ARGS is passed on: make test ARGS="tests/journal -k torn", make serve ARGS="--port 7900".

PYTHON ?= python3
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup test lint demo serve bench drill soak fuzz docs reference lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY)  ## create .venv with the locked packages and cordwood itself

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -n 3 --dist loadgroup -q $(ARGS)  # three on two cores: tests wait more than they work

lint: $(READY)  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: $(READY)  ## watch messages go in, survive a crash and come out
	$(BIN)/cordwood demo $(ARGS)

serve: $(READY)  ## start a broker
	$(BIN)/cordwood serve $(ARGS)

bench: $(READY)  ## measure
	$(BIN)/python -m bench $(ARGS)

drill: $(READY)  ## break things on purpose and see that nothing is lost
	$(BIN)/python -m cordwood.drills $(ARGS)
	$(BIN)/cordwood drill

soak: $(READY)  ## a million simulated crashes, then an hour of real load: does anything grow?
	$(BIN)/python -m cordwood.drills whole --crashes 1000000 $(ARGS)
	$(BIN)/python -m cordwood.drills soak --minutes 60

fuzz: $(READY)  ## try bytes that nobody meant, some ten minutes of them; FUZZ_EXAMPLES says how many for each test
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-2000} $(BIN)/python -m pytest -n 2 -q --timeout=3600 tests/fuzz $(ARGS)

docs: $(READY) reference  ## build the documentation into site/
	$(BIN)/zensical build --clean --strict $(ARGS)

reference: $(READY)  ## write docs/reference again from the code
	$(BIN)/python -m tools.reference

# The stamp is written last, so a setup that was cut short is done again. --clear, so that a package
# dropped from the lock is gone from .venv too. --no-build-isolation builds with the locked hatchling;
# otherwise pip would fetch the newest one, unhashed.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Cordwood needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot create a venv; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# uv has a venv of its own, because .venv is made from the file that this writes. Pins stay as they are
# unless pyproject.toml forbids them; make lock ARGS=--upgrade moves them all.
lock:  ## write requirements.lock again from pyproject.toml
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --disable-pip-version-check uv
	.venv-lock/bin/uv pip compile --quiet pyproject.toml --extra test --extra bench --extra spark --extra docs --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-emit-find-links -o requirements.lock $(ARGS)

clean:  ## remove what make and the tools made; never a data directory
	rm -rf $(VENV) .venv-lock build dist site .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools bench -type d -name __pycache__ -prune -exec rm -rf {} +
