# SPDX-License-Identifier: Apache-2.0
# One command per task. Each prepares .venv by itself; the second time there is nothing to prepare.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.ready-dev
DOCS := $(VENV)/.ready-docs
MUTANTS := $(VENV)/.ready-mutants
BROWSER := $(VENV)/.ready-browser

export PYTHON VENV

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test test-slow kube kube-server kube-operators test-kube test-browser screenshots lint bench bench-kube kueue-suite conformance mutants docs up gpu plan map lock clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: $(DEV)  ## run all tests except slow ones; ARGS="tests/engine -k borrow" selects tests
	$(BIN)/python -m pytest -n auto $(or $(ARGS),-m "not slow")

# Slow tests mostly wait for processes and timers, so two of them share a core.
test-slow: $(DEV)  ## run the slow tests; ARGS selects some
	$(BIN)/python -m pytest -n $$(( 2 * $$(nproc) )) -m slow $(ARGS)

kube:  ## provide etcd, Kubernetes binaries, operators and Helm for test-kube; builds them once; OPERATORS="jobset lws" selects some
	@$(MAKE) --no-print-directory -j2 kube-server kube-operators

kube-server:
	@scripts/kube

kube-operators:
	@scripts/operators $(OPERATORS)
	@scripts/autoscalers
	@scripts/kwok
	@scripts/helm

test-kube: $(DEV)  ## run tests/cluster on a real API server; ARGS selects some
	@scripts/test-kube $(BIN)/python $(ARGS)

test-browser: $(DEV) $(BROWSER)  ## run the tests of the dashboard in Chromium; ARGS selects some
	@browser=$$(scripts/browser) && KUOTA_CHROMIUM="$$browser" $(BIN)/python -m pytest $(or $(ARGS),tests/browser)

screenshots: $(DEV) $(BROWSER)  ## take the pictures of docs/dashboard.md again, into docs/images
	@browser=$$(scripts/browser) && KUOTA_CHROMIUM="$$browser" KUOTA_IMAGES=docs/images \
	  $(BIN)/python -m pytest tests/browser/test_tour.py

lint: $(DEV)  ## check style, types, layers, size limits and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/limits.py
	$(BIN)/python scripts/kind_branches.py
	$(BIN)/python scripts/modules.py --check
	$(BIN)/python scripts/job_kinds.py --check
	$(BIN)/python scripts/shapes.py --check
	$(BIN)/python -m kuota.cli.crds --check manifests/crds
	$(BIN)/python scripts/install_files.py --check
	$(BIN)/python scripts/monitoring.py --check

bench: $(DEV)  ## benchmark engine, store and kuota up; ARGS=live selects one, ARGS=kept takes minutes
	$(BIN)/python -m bench $(ARGS)

bench-kube: $(DEV)  ## benchmark the controller on a real API server; FULL=1 is the full load, ARGS=multikueue dispatches to four workers, RUNNER=DIR uses Kueue's runner
ifdef RUNNER
	PYTHONPATH=tests $(BIN)/python -m bench.runner "$(RUNNER)" $(if $(CONFIG),--config $(CONFIG)) \
	  $(if $(MANAGER),--manager $(MANAGER)) $(if $(SCALE),--scale $(SCALE))
else
	PYTHONPATH=tests $(BIN)/python -m bench.kube $(if $(FULL),--full) $(ARGS)
endif

kueue-suite: $(DEV)  ## run an integration suite of Kueue against Kuota: KUEUE=DIR SUITE=scheduler [ARGS=...]
	$(BIN)/python scripts/kueue_suites.py $(or $(KUEUE),DIR) $(or $(SUITE),SUITE) $(ARGS)

conformance: $(DEV)  ## compare with recorded cases of Kueue: CASES=DIR [ONLY="scheduler preemption"] [ALTER=1]
	@test -n "$(CASES)" || { \
	  echo 'Which cases? Say: make conformance CASES=DIR [ONLY="scheduler preemption"]' >&2; exit 2; }
	PYTHONPATH=tests $(BIN)/python -m conformance $(if $(ALTER),--alter) "$(CASES)" $(ONLY)

mutants: $(DEV) $(MUTANTS)  ## run mutation tests of the engine and the bridge
	nice $(BIN)/python scripts/mutants.py $(ARGS)

docs: $(DOCS)  ## build the documentation into site/
	$(BIN)/zensical build --clean

up: $(DEV)  ## run the live example: three teams, eight simulated GPUs; KEEP=1 keeps it running; CLUSTERS=3 shares jobs among control planes
ifdef CLUSTERS
	@$(BIN)/python scripts/fleet_trial.py --clusters $(CLUSTERS)
else
	@$(BIN)/kuota demo $(if $(KEEP),--keep)
endif

gpu: $(DEV)  ## let two trainers contend for this machine's GPU; PRETEND=1 simulates the GPU
	@$(BIN)/python scripts/gpu_trial.py $(if $(PRETEND),--pretend)

plan: $(DEV)  ## plan the example three-teams
	$(BIN)/kuota plan -f examples/three-teams

map: $(DEV)  ## update the list of modules in ARCHITECTURE.md, the table of job kinds, dashboards, alerts and metrics
	$(BIN)/python scripts/modules.py
	$(BIN)/python scripts/job_kinds.py
	$(BIN)/python scripts/monitoring.py

lock:  ## update the lock files from pyproject.toml; UPGRADE=1 selects newer versions
	scripts/lock $(if $(UPGRADE),--upgrade)

clean:  ## remove the environment and all build output
	rm -rf $(VENV) site build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache \
	  .hypothesis .cache
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEV): requirements-dev.lock pyproject.toml
	scripts/setup requirements-dev.lock --editable
	@touch $@

$(DOCS): requirements-docs.lock
	scripts/setup requirements-docs.lock
	@touch $@

$(BROWSER): requirements-browser.lock
	scripts/setup requirements-browser.lock
	@touch $@

$(MUTANTS): requirements-mutants.lock
	scripts/setup requirements-mutants.lock
	@touch $@
