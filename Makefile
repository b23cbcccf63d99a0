# Every target sets itself up from nothing: a virtual environment in .venv with the newest
# suitable interpreter on this machine, then the project with what the target needs.
SHELL := /bin/bash
PYTHON ?= $(shell bash tests/newest-python.sh)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2

.PHONY: demo test test-all bench lint generate picture readme readme-benchmarks requirements clean

$(VENV)/.installed: pyproject.toml requirements-dev.txt
	@test -n "$(PYTHON)" || { echo "icectl needs Python 3.11 or newer; none was found" >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(PIP) --require-hashes -r requirements-dev.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Pins everything again after a change of the dependencies; UPGRADE=--upgrade takes the newest
# versions of all. uv must be installed.
requirements:
	uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --custom-compile-command "make requirements" \
	  --extra test --extra spark --output-file requirements-dev.txt pyproject.toml

# In a new directory each time, or in DEMO=DIRECTORY; nothing is ever deleted.
demo: $(VENV)/.installed
	@$(BIN)/icectl demo "$${DEMO:-$$(mktemp -d -t icectl-demo-XXXXXX)}"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow"

test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

bench: $(VENV)/.installed
	$(BIN)/python -m compileall -q icectl
	$(BIN)/python -m tests.benchmarks

# Man pages and completions are generated; a test fails when they are not current.
generate: $(VENV)/.installed
	$(BIN)/python -m icectl.cli.generate

# The pictures and the output in README are real: these targets make them again.
picture: $(VENV)/.installed
	$(BIN)/python -m tests.docs.picture

readme: picture
	$(BIN)/python -m tests.docs.readme

# After `make bench`.
readme-benchmarks: $(VENV)/.installed
	$(BIN)/python -m tests.docs.readme --benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
