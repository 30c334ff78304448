# Every target sets up what it needs, once; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# Packages are installed again only when what they depend on has changed.
.venv/ready: pyproject.toml constraints.txt scripts/system-tools.sh
	sh scripts/system-tools.sh $(PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . \
		--group test --group lint --group bench
	touch $@

setup: .venv/ready ## install everything the other targets need

demo: .venv/ready ## verify two queries on real data, from query text to verdict
	$(BIN)/joinery demo

test: .venv/ready ## run all tests, on every core
	$(BIN)/pytest -n auto --dist worksteal

lint: .venv/ready ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready ## run all measurements
	$(BIN)/joinery bench all

clean: ## remove the environment and everything built here
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis
