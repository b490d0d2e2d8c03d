# What there is to run. Needs GNU make and Python 3.11 or newer; everything else is installed into .venv at first use.

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PYTEST := $(PY) -m pytest $(ARGS)
WORKERS ?= 3
SIDE_BY_SIDE := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
WITH_EMULATOR := $(PY) -m functions.cli.emulator --
SERVE := $(BIN)/functions-framework --target app --source functions/main.py

.DEFAULT_GOAL := help
.PHONY: help serve serve-emulator test test-all test-slow bench check audit requirements clean

help: ## shows the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

serve serve-emulator: export HOST ?= 127.0.0.1
serve serve-emulator: export PORT ?= 8080
serve: export STORE ?= file
serve: export STORE_PATH ?= .firesession
serve: $(VENV)/.runtime ## serves all functions on http://$HOST:$PORT, on the file store
	@$(say_how_to_chat)
	@exec $(SERVE) --host $(HOST) --port $(PORT)

serve-emulator: export STORE := firestore
serve-emulator: export GOOGLE_CLOUD_PROJECT ?= demo-firesession
serve-emulator: $(VENV)/.runtime ## the same on a Firestore emulator
	@$(say_how_to_chat)
	@exec $(WITH_EMULATOR) $(SERVE) --host $(HOST) --port $(PORT)

test: $(VENV)/.dev ## runs the tests on a Firestore emulator, WORKERS at a time; ARGS go to pytest
	@exec $(WITH_EMULATOR) $(PYTEST) $(SIDE_BY_SIDE)

test-all: $(VENV)/.dev ## the tests, and those that need Node.js, a browser or a deployable package
	@exec $(WITH_EMULATOR) $(PYTEST) $(SIDE_BY_SIDE) -m "not slow and not bench"

test-slow: $(VENV)/.dev ## the tests that take minutes
	@exec $(WITH_EMULATOR) $(PYTEST) --timeout 1800 -m slow

bench: $(VENV)/.dev ## the measurements
	@exec $(WITH_EMULATOR) $(PYTEST) --timeout 1800 -s -m bench

check: $(VENV)/.dev ## lint, format, types, and whether the locked requirements are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PY) tools/requirements.py --check

audit: $(VENV)/.dev ## fails on known advisories of what is deployed; says so where nobody can be asked
	$(PY) tools/audit.py

requirements: $(VENV)/.dev ## locks pyproject.toml's dependencies; ARGS=--upgrade takes newer versions
	$(PY) tools/requirements.py $(ARGS)

clean: ## removes what make and the tools made; the file store's data stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find store functions tests tools -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.runtime: pyproject.toml functions/requirements.txt
	@$(make_venv)
	$(PY) -m pip install -qq --require-hashes --requirement functions/requirements.txt
	$(PY) -m pip install -qq --no-deps --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml requirements-dev.txt
	@$(make_venv)
	$(PY) -m pip install -qq --require-hashes --requirement requirements-dev.txt
	$(PY) -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.runtime

define say_how_to_chat
printf '%s\n' "curl -N http://$(HOST):$(PORT)/chat -H 'Content-Type: application/json'\
 -H 'Accept: text/event-stream' -d '{\"message\": \"Hello\"}'"
endef

define make_venv
if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			exec $$python -m venv $(VENV); \
		fi; \
	done; \
	echo 'firesession needs Python 3.11 or newer: install it, or name it with make PYTHON=...' >&2; \
	exit 1; \
fi
endef
