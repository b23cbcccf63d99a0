# Every target first sets up .venv with the newest suitable interpreter on this machine, and
# installs the project and its dependencies there.
SHELL := /bin/bash
PYTHON ?= $(shell bash tests/newest-python.sh)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Twice the number of cores of CI: many tests wait for servers and other processes.
WORKERS ?= 4

.PHONY: demo test test-all bench lint generate picture readme readme-benchmarks requirements clean

$(VENV)/.installed: pyproject.toml requirements-dev.txt
	@test -n "$(PYTHON)" || { echo "icectl needs Python 3.11 or newer; none was found" >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(PIP) --require-hashes --no-compile -r requirements-dev.txt
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib  # on all cores; pip would use one
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Pin all dependencies again after a change; UPGRADE=--upgrade takes the newest versions.
# Needs uv.
requirements:
	uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --custom-compile-command "make requirements" \
	  --extra test --extra spark --extra report --output-file requirements-dev.txt pyproject.toml

# Uses a new directory, or DEMO=DIRECTORY; never deletes anything.
demo: $(VENV)/.installed
	@$(BIN)/icectl demo "$${DEMO:-$$(mktemp -d -t icectl-demo-XXXXXX)}"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports & imports=$$!; $(BIN)/mypy --num-workers 2 && wait $$imports

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow"

test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

bench: $(VENV)/.installed
	$(BIN)/python -m compileall -q icectl
	$(BIN)/python -m tests.benchmarks

# Generates man pages and completions; a test fails if they are not current.
generate: $(VENV)/.installed
	$(BIN)/python -m tests.docs.generate

# The pictures and the output in README are real; these targets update them.
picture: $(VENV)/.installed
	$(BIN)/python -m tests.docs.picture
	$(BIN)/python -m tests.docs.report_picture

readme: picture
	$(BIN)/python -m tests.docs.readme

# Run `make bench` first.
readme-benchmarks: $(VENV)/.installed
	$(BIN)/python -m tests.docs.readme --benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
