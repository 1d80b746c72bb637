PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint type format bench bench-kernels clean-kernels clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "graphwrap needs Python 3.10 or newer; choose one with: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps gym-sokoban==0.0.6
	@touch $@

demo: $(INSTALLED) ## train SB3 PPO on Sokoban under five credits and show what graph credit is worth (minutes)
	$(BIN)/graphwrap compare --out results/demo

test: $(INSTALLED) ## run all tests
	$(BIN)/python -m pytest -n auto

lint: $(INSTALLED) ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(INSTALLED) ## check types
	$(BIN)/mypy

format: $(INSTALLED) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## measure the figures of docs/benchmarks.md
	$(BIN)/graphwrap bench

bench-kernels: $(INSTALLED) ## measure single kernels
	$(BIN)/python -m pytest tests/benchmarks --benchmark-enable --benchmark-only

clean-kernels: ## remove compiled kernels, which are made anew at their next use
	find graphwrap envs -name '*.nb[ic]' -delete

clean: ## remove the environment and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
