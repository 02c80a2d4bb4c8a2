# Everything sets itself up in .venv; the second time it takes no time.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help run test golden golden-programs lowest extras flower wire benchmark clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

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

TEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
IN = $(addprefix tests/,$(1))

# Each line of tests has processes of its own: JAX's memory grows with the programs of a process, and processes with
# thousands of programs ended now and then by a segmentation fault in the library that unwinds the stack.
test: .venv/dev  ## lint, types, declared dependencies, doctests and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/deptry fedloom
	$(TEST) $(call IN,golden product engines)
	$(TEST) $(call IN,algorithms routing round combine local mixing selection)
	$(TEST) fedloom $(call IN,runs recipes data cli federation packaging) tests/test_*.py
	$(TEST) $(call IN,tasks kernels clients)

golden: .venv/dev  ## write the golden values anew (tests/golden/README.md)
	$(BIN)/python tests/golden/regenerate.py

golden-programs: .venv/dev  ## compare the compiled programs with the golden ones: for changes of names only
	GOLDEN_PROGRAMS=1 $(BIN)/python -m pytest tests/golden/test_programs.py

lowest: .venv/dev  ## install the lowest versions that pyproject.toml allows, and train with them
	tests/packaging/lowest.sh

extras: .venv/dev  ## install each extra in a fresh environment, and train with it (gigabytes are downloaded)
	tests/packaging/extras.sh

flower: .venv/dev  ## run the federation beside Flower, and with protobuf 5, 6 and 7
	tests/packaging/flower.sh

wire: .venv/dev  ## compile wire.proto, the messages between server and participants
	$(BIN)/uv run --no-project --with grpcio-tools python -m grpc_tools.protoc --proto_path=fedloom/federation \
		--descriptor_set_out=fedloom/federation/wire.binpb --pyi_out=fedloom/federation wire.proto

benchmark: .venv/dev  ## time fedloom and its peers side by side (an hour), and draw the tables
	benchmarks/peers.sh
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/tables.py

clean:  ## remove the environment and the caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
