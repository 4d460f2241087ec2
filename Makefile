# make demo    environment, install, the main job on a trace of the repository
# make test    environment, install with the wheel's content, all tests
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test lint bench golden schema clean

# Core only: what a user of `analyze` needs.
$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt .
	touch $@

# The tests run against the installed wheel, so that a file that is missing from it fails one.
.PHONY: installed
installed: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt ".[dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .

demo: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	$(BIN)/lorabench analyze fixtures/lora-run.sqlite -o demo-out/report.csv
	@echo
	$(BIN)/lorabench query demo-out/report.duckdb "select path, range_cnt, round(wall_ns / 1e3, 1) as wall_us, kernel_cnt, round(kernel_ns / 1e3, 1) as kernel_us, round(launch_overhead_ns / 1e3, 1) as launch_overhead_us from range_summary limit 12"
	@echo
	@echo "The report is demo-out/report.csv, its database demo-out/report.duckdb"

test: installed lint
	$(BIN)/python -m pytest

lint: installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd / && $(abspath $(BIN))/mypy -p lorabench --config-file $(abspath pyproject.toml)

bench: installed
	$(BIN)/python benchmarks/run.py

golden: installed
	PYTHONPATH=fixtures $(BIN)/python tests/golden/test_golden.py

schema: installed
	$(BIN)/lorabench views --markdown > sql/SCHEMA.md

clean:
	rm -rf $(VENV) build *.egg-info demo-out .bench
