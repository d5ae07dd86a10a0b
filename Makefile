# `make demo` and `make test` need Python 3.11 or later, make and the package registries. Everything else is built here.

PYTHON ?= python3
VENV := .venv
EMULATOR := .venv-emulator
BIN := $(VENV)/bin
# A file's tests stay together: the stack that they share is deployed once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: demo test test-fast test-long test-engine lint types format build refresh bench mutants clean help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort | expand -t 16

demo: $(VENV)/.done $(EMULATOR)/.done .build/.done  ## delete accounts on an emulator of AWS on this machine, with what breaks
	@$(BIN)/python -m local demo $(ARGS)

test: $(VENV)/.done $(EMULATOR)/.done .build/.done lint types  ## lint, types, and every test but those of the next two
	@$(PYTEST) -m "not long" tests/unit tests/workflow tests/infra tests/fakes tests/emulator

test-fast: $(VENV)/.done .build/.done  ## what needs no emulator, without the exhaustive tests
	@$(PYTEST) -q -m "not exhaustive and not long" tests/unit tests/workflow tests/infra tests/fakes

test-long: $(VENV)/.done $(EMULATOR)/.done .build/.done  ## what takes minutes: drawn worlds, parts lost or killed, the demo
	@$(PYTEST) -m long tests/unit tests/workflow tests/infra tests/properties tests/emulator tests/faults

test-engine: $(VENV)/.done $(EMULATOR)/.done .build/.done  ## the real Pulumi engine; needs Go, or pulumi on the PATH
	@$(BIN)/python -m pytest tests/engine

lint: $(VENV)/.done  ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.done  ## mypy --strict, for the tests and the benches too
	@$(BIN)/mypy

format: $(VENV)/.done  ## write the code in its usual form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

build: .build/.done  ## the Lambda layer, from hash-pinned wheels

refresh: $(VENV)/.done .build/.done  ## write the committed definition, diagram and golden files again
	@$(BIN)/python -m statemachine refresh
	@$(BIN)/python -m tests.infra.golden

bench: $(VENV)/.done $(EMULATOR)/.done .build/.done  ## measure, and write docs/benchmarks.md; half an hour, needs Go
	@$(BIN)/python -m bench

mutants: $(VENV)/.done .build/.done  ## remove each protection in turn; some test must fail each time
	@$(BIN)/python -m tests.mutants

clean:  ## remove what make built
	rm -rf $(VENV) $(EMULATOR) .build .local

$(VENV)/.done: requirements.txt constraints.txt
	@echo "Building $(VENV): the project's packages from requirements.txt (a minute or two, once) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(EMULATOR)/.done: local/requirements.txt
	@echo "Building $(EMULATOR): the AWS emulator from local/requirements.txt (once) ..."
	@$(PYTHON) -m venv --clear $(EMULATOR)
	@$(EMULATOR)/bin/pip install --quiet --disable-pip-version-check -r local/requirements.txt
	@touch $@

.build/.done: $(VENV)/.done infra/layer.lock infra/packaging.py infra/build.py
	@echo "Building .build: the Lambda layer from infra/layer.lock (once) ..."
	@$(BIN)/python -m infra.build
	@touch $@
