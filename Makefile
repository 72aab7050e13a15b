# All set-up happens in .venv from a bare checkout; nothing global is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 3
STAMP := $(VENV)/.installed

.PHONY: demo test lint format lock bench torture build clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rubricd needs Python 3.11 or newer; say which with: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)
	$(BIN)/rubricd demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov --cov-report=term $(PYTEST)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet pip-tools
	$(VENV)-lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --extra dev --all-build-deps \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --no-annotate --output-file constraints.txt pyproject.toml
	rm -rf $(VENV)-lock

bench: $(STAMP)
	$(BIN)/python -m bench

torture: $(STAMP)
	RUBRICD_KILL_ROUNDS=200 RUBRICD_KILL_SECONDS=1500 RUBRICD_SMALL_REQUESTS=10000 RUBRICD_ALL_CASES=1 $(BIN)/python -m pytest \
	  tests/end_to_end/test_crashes.py tests/end_to_end/test_clock_jumps.py tests/end_to_end/test_full_disk.py tests/operations/test_overload.py \
	  tests/intake/test_with_sqlite.py tests/intake/test_journal_crash.py tests/intake/test_recorded_cases.py

build: $(STAMP)
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .coverage
