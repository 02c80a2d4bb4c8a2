# Everything sets itself up in .venv; the second time it takes no time.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help run test benchmark clean
.DEFAULT_GOAL := help

help:  ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.venv/installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

.venv/dev: .venv/installed
	$(PIP) torch==2.13.0  # alone and first: what depends on it must take this one
	$(PIP) -e '.[dev]'
	@touch $@

run: .venv/installed  ## train the first model: MNIST, 100 clients, to 97 %
	$(BIN)/fedloom run

test: .venv/dev  ## lint, types, doctests and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

benchmark: .venv/dev  ## time fedloom and its peers side by side (an hour), and draw the tables
	benchmarks/peers.sh
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/tables.py

clean:  ## forget the environment and the caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
