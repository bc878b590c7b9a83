# `make demo` and `make test` set up everything they need in .venv; a second call does not install again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PURIGRAPH_TEST_THREADS ?= 2

.PHONY: setup demo test lint types imports check api docs bench fuzz kills clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("purigraph needs Python 3.10 or newer; set PYTHON=... to one") if sys.version_info < (3, 10) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/purigraph demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PURIGRAPH_TEST_THREADS) --cov=purigraph --cov-report=term --cov-fail-under=90

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

check: lint types imports test

api: $(READY)
	$(BIN)/python docs/make_api_page.py
	$(BIN)/python -m purigraph.cli.setting_lists

docs: $(READY)
	$(BIN)/python -c "import material, mkdocstrings" 2>/dev/null || $(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	$(BIN)/python -m mkdocs build --strict --quiet
	@echo "The pages are in build/docs; open build/docs/index.html."

# A part of 2,000 cases and 10 kills is in `make test`. `make fuzz SEED=...` runs one case again.
FUZZ_CASES ?= 100000
FUZZ_FIRST ?= 0
KILLS ?= 100

fuzz: $(READY)
	PYTHONPATH=src:tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz $(or $(SEED),--cases $(FUZZ_CASES) --first $(FUZZ_FIRST) -j $(PURIGRAPH_TEST_THREADS))

kills: $(READY)
	PYTHONPATH=src:tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz.kills --kills $(KILLS)

bench: $(READY)
	$(BIN)/purigraph bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
