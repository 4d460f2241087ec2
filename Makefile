# make demo    environment, install, two small runs of four adapters, analysed and compared
# make test    environment, install with the wheel's content, all tests
# make attack  hostile inputs, kills and full disks for an hour (MINUTES=60), with a count at the end
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

MINUTES ?= 60

.PHONY: demo test attack lint bench golden schema clean

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt ".[collect]"
	touch $@

# The tests run against the installed wheel, so that a file that is missing from it fails one.
.PHONY: installed
installed: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt ".[collect,dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .

demo: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	$(BIN)/lorabench collect --lora-cnt 4 --peft-mode switch -o demo-out/switch --force
	$(BIN)/lorabench collect --lora-cnt 4 --peft-mode batch -o demo-out/batch --force
	$(BIN)/lorabench analyze demo-out/switch -o demo-out/switch.csv
	$(BIN)/lorabench analyze demo-out/batch -o demo-out/batch.csv
	@echo
	$(BIN)/lorabench query demo-out/batch "select path, range_cnt, round(wall_ns / 1e6, 2) as wall_ms, round(self_wall_ns / 1e6, 2) as self_wall_ms from range_summary join source using (source_id) where source.kind = 'kineto' and range_summary.kind = 'annotation' order by wall_ns desc limit 12"
	@echo
	$(BIN)/lorabench compare demo-out/switch demo-out/batch
	$(BIN)/lorabench compare demo-out/switch demo-out/batch -o demo-out/compare.html
	@echo
	@echo "The runs are demo-out/switch and demo-out/batch, their reports demo-out/switch.csv and demo-out/batch.csv, and side by side demo-out/compare.html"

test: installed lint
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile

lint: installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd / && $(abspath $(BIN))/mypy -p lorabench --config-file $(abspath pyproject.toml)
	@if command -v npx > /dev/null; then echo "eslint reports/page/scripts"; \
	npx --yes eslint@9.39.1 -c tests/page/eslint.config.mjs reports/page/scripts tests/page; \
	else echo "no npx here: the page's scripts are not linted"; fi

attack: installed
	$(BIN)/python tests/hostile/attack.py --minutes $(MINUTES)

bench: installed
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/replay.py
	$(BIN)/python benchmarks/collect.py

golden: installed
	PYTHONPATH=fixtures $(BIN)/python tests/golden/test_golden.py

schema: installed
	$(BIN)/lorabench views --markdown > sql/SCHEMA.md

clean:
	rm -rf $(VENV) build *.egg-info demo-out .bench
