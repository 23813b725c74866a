# make run: the first scenario. make test: everything that must hold before a change goes in. Needs Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2
QUIET := --quiet --disable-pip-version-check

.PHONY: run test lint validate bench clean

run: .venv/run.stamp
	$(BIN)/dstlab run olsson-2007

test: lint
	$(BIN)/pytest -q -n $(JOBS)
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -n $(JOBS)
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -q -n $(JOBS)

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Full-scale and statistical checks: minutes to hours.
validate: .venv/test.stamp
	$(BIN)/pytest -q -m slow

bench: .venv/test.stamp
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf .numba_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install $(QUIET) -e .
	@touch $@

.venv/test.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install $(QUIET) -e '.[test]'
	@touch $@ .venv/run.stamp
