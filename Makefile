# make demo    environment, install, two small runs of four adapters, compared; without a GPU a capture of one, too
# make test    environment, install with the wheel's content, lint, the quick tests: what CI runs
# make test-slow  those marked slow, too, for an hour; before a release, and after a change of what many things rest on
# make test-all   those marked long, too: very many cases of the same and long runs, for hours
# make lint    ruff, mypy, the import contracts, and eslint where npx is; installs only what changed
# make attack  hostile inputs, kills and full disks for an hour (MINUTES=60), with a count at the end
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

MINUTES ?= 60

.PHONY: demo test test-slow test-all attack lint bench golden schema clean

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "Installing torch, transformers, peft and what analyzing needs into $(VENV) (once; minutes where they must be downloaded)"
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt ".[collect]"
	touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt ".[collect,dev]"
	touch $@

# The tests run against the installed wheel, so that a file that is missing from it fails one. It is made again when a
# file of it changed, or came or went: then the sum of their names is another.
PACKED := $(shell find . -name '.?*' -prune -o \( -path ./tests -o -path ./benchmarks -o -path ./docs -o -path ./fixtures \
	-o -path ./build -o -path ./$(VENV) -o -name '*.egg-info' -o -name __pycache__ -o -path './*-out' \) -prune \
	-o -type f -not -name '*.md' -print | LC_ALL=C sort) README.md
PACKAGE = $(VENV)/package-$(shell echo $(PACKED) | cksum | cut -d ' ' -f 1)

.PHONY: installed
installed: $(PACKAGE)

$(PACKAGE): $(VENV)/dev $(PACKED)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	rm -f $(VENV)/package-*
	touch $@

# Without a GPU the runs are small, and a capture of an H200 shows what a page about kernels says.
GPU := $(shell nvidia-smi --list-gpus 2>/dev/null | grep '^GPU ')
DEMO = --lora-cnt 4 $(if $(GPU),,--seq-len 32 --batch-size 2 --profiler timing,torch) --force
SHOWN = $(if $(GPU),demo-out/batch,demo-out/h200.sqlite)

demo: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	@echo; echo "1/4 four adapters in turn (half a minute)"
	$(BIN)/lorabench collect --peft-mode switch $(DEMO) -o demo-out/switch
	@echo; echo "2/4 the same in one pass: BatchLoRA (half a minute)"
	$(BIN)/lorabench collect --peft-mode batch $(DEMO) -o demo-out/batch
	@echo; echo "3/4 which is faster, and what changed"
	$(BIN)/lorabench compare demo-out/switch demo-out/batch
	$(BIN)/lorabench compare demo-out/switch demo-out/batch -o demo-out/compare.html
	@echo; echo "4/4 where the time goes$(if $(GPU),,: no GPU here, so this is a capture of the same program on an NVIDIA H200)"
	$(if $(GPU),,gunzip -c fixtures/h200-batch/run.sqlite.gz > demo-out/h200.sqlite)
	$(BIN)/lorabench summary $(SHOWN)
	$(BIN)/lorabench report $(SHOWN) -o demo-out/page.html
	@echo; echo "Open demo-out/compare.html (both runs) and demo-out/page.html (where the time goes)."

# One worker more than cores: many tests wait for a browser, a server or a process that is killed.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(9, 1 + (os.cpu_count() or 1)))")

# A file stays with one worker; conftest.py says which come first.
SHARED = --dist loadfile --no-loadscope-reorder

# What pytest makes of the asserts is kept: to make it anew takes each worker ten seconds.
test test-slow test-all: export PYTHONDONTWRITEBYTECODE =

test: installed lint
	$(BIN)/python -m pytest -n $(WORKERS) $(SHARED)

test-slow: installed lint
	$(BIN)/python -m pytest -n $(WORKERS) $(SHARED) --slow

test-all: installed lint
	$(BIN)/python -m pytest -n $(WORKERS) $(SHARED) --long

lint: installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd / && $(abspath $(BIN))/mypy -p lorabench --config-file $(abspath pyproject.toml)
	cd / && $(abspath $(BIN))/lint-imports --config $(abspath pyproject.toml) --no-cache
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
