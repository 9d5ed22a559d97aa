# Every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Hundreds of processes are started by the tests; without it each would compile whatever it imports.
unexport PYTHONDONTWRITEBYTECODE

TIMES ?= 5
FUZZED := $(addprefix tests/engine/stories/test_,invariants.py foreign_code.py volume_histories.py) tests/simulation/test_crashes.py

.PHONY: help setup demo test fuzz fuzz-histories lint house fix crds reference tutorial docs screens bench bench-envtest bench-drain bench-start bench-core bench-growth bench-beside bench-week bench-api bench-backfill bench-fragmentation e2e e2e-kubelets e2e-node e2e-kind sim soak test-envtest lock clean

help: ## Show this list
	@if [ -t 1 ]; then on='\033[1m' off='\033[0m'; fi; \
	  awk -F':.*## ' -v "on=$$on" -v "off=$$off" '/^[a-z0-9-]+:.*## /{printf "  %s%-20s%s %s\n", on, $$1, off, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Only the environment, in .venv

$(READY): requirements.lock pyproject.toml operator/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tutti needs Python 3.11 or newer; '$(PYTHON)' is older. Say which one to use: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable operator
	@touch $@

demo: $(READY) ## Embedded cluster, operator and a workload mix, live; ends by itself with a summary (KEEP=1: with the address of its pages)
	@$(BIN)/tutti demo $(if $(KEEP),--keep)

test: $(READY) ## The whole test suite
	@# What all six read is compiled once, by two, before they start: else each of them compiles all of it.
	@$(BIN)/python -m pytest -q --collect-only e2e tests/engine > /dev/null & \
	  $(BIN)/python -m pytest -q --collect-only tests --ignore tests/engine > /dev/null; wait
	@$(BIN)/python -m pytest -n 6 --dist loadgroup

PYTHONS ?= 3.11 3.12 3.13
ROOMS ?= tests/api tests/quota tests/placement tests/engine/stories tests/cli/views
.PHONY: test-pythons
test-pythons: requirements.lock ## ROOMS of the tests on every one of PYTHONS that is here, each in an environment of its own
	@for version in $(PYTHONS); do \
	  python=$$(ls -d ~/.pyenv/versions/$$version.*/bin/python 2> /dev/null | tail -n 1); python=$${python:-$$(command -v python$$version)}; \
	  if [ -z "$$python" ]; then echo "test-pythons: there is no Python $$version here"; continue; fi; \
	  env=build/python-$$version; echo "test-pythons: $$version"; \
	  [ -e $$env/.ready ] || { $$python -m venv $$env && \
	    $$env/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
	    $$env/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable operator && \
	    touch $$env/.ready; } || exit; \
	  $$env/bin/python -m pytest -p no:cacheprovider -q -n 2 $(ROOMS) || exit; \
	done

SECONDS ?= 300
fuzz: $(READY) ## Hostile objects of every kind, read as the operator reads them: SECONDS=n SEED=n, WHOLE=1 for a whole operator
	@$(BIN)/python -m tests.hostile.command --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(WHOLE),--operator)

fuzz-histories: $(READY) ## Random histories that no run has seen before, TIMES=n times as many as in make test; and a kill at every write
	@TUTTI_FUZZ=$(TIMES) $(BIN)/python -m pytest -n 2 --dist loadgroup $(FUZZED)

SEEDS ?= 500
FIRST_SEED ?= 0
sim: $(READY) ## Whole processes on a virtual clock, with faults drawn from seeds: SEEDS=n FIRST_SEED=k
	@$(BIN)/python -m tests.simulation.command $(SEEDS) $(FIRST_SEED)

DAYS ?= 14
soak: $(READY) ## Weeks of churn on a virtual clock: a process holds as much in the end as one started anew (DAYS=n)
	@$(BIN)/python -m tests.simulation.soak $(DAYS)

lint: $(READY) ## ruff, mypy --strict, import contracts, docstrings
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/interrogate --quiet --config pyproject.toml operator

house: $(READY) ## How the code is doing against what it is to come to: rooms, names, files, the way of one pod (ARGS='-o json')
	@$(BIN)/python -m tests.house $(ARGS)

fix: $(READY) ## Let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

crds: $(READY) ## Generate crds/ from the models
	@$(BIN)/python -m tutti.api.crds crds

reference: $(READY) ## Generate docs/reference from the models
	@$(BIN)/python -m handbook.reference docs/reference

.PHONY: reasons
reasons: $(READY) ## Choose examples for the page of reasons anew, of what engines say in tests
	@$(BIN)/python -m handbook.said
	@$(BIN)/python -m handbook.reference docs/reference

.PHONY: monitoring
monitoring: $(READY) ## Generate the Grafana dashboard and the alerts
	@$(BIN)/python -m handbook.monitoring manifests/overlays/monitoring

.PHONY: promtool
promtool: build/prometheus/usr/bin/promtool ## Debian's Prometheus and promtool in build/prometheus, for tests of alerts and the dashboard's picture

build/prometheus/usr/bin/promtool:
	@mkdir -p build/prometheus && cd build/prometheus && apt-get download --quiet --quiet -o APT::Sandbox::User=root prometheus && \
	  dpkg -x prometheus_*.deb . && rm prometheus_*.deb && touch usr/bin/promtool

.PHONY: web-screens
web-screens: $(READY) axe ## Take the pages' pictures in Chromium; writes docs/screens
	@SCREENS=docs/screens $(BIN)/python -m pytest -q tests/web/browser/test_screens.py

.PHONY: dashboard-screen
dashboard-screen: $(READY) promtool ## Draw the dashboard from real metrics of a scene on the embedded cluster; writes docs/screens
	@$(BIN)/python -m handbook.screen docs/screens/dashboard.svg

.PHONY: axe
axe: build/axe/node_modules/axe-core/axe.min.js ## axe-core from npm in build/axe: tests ask it whether pages can be used by everybody

build/axe/node_modules/axe-core/axe.min.js:
	@mkdir -p build/axe && npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix build/axe axe-core@4.14.1

tutorial: $(READY) ## Run what README and docs/ tell to type on embedded clusters, and write what is printed into the pages
	@$(BIN)/python -m handbook.tutorial README.md $$(grep -rl '^```sh' docs)

.PHONY: pictures
pictures: $(READY) ## Run what the pages show again, and write their pictures and tables (TOPICS='load network' for some)
	@$(BIN)/python -m handbook.pictures $(TOPICS)

docs: $(READY) ## docs/ as a site, in build/site; a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: manifests-check
manifests-check: $(READY) ## Show every overlay and sample to an API server that takes no unknown field
	@$(BIN)/python -m tests.manifests.check

.PHONY: chart chart-check helm
chart: $(READY) ## Generate the Helm chart, manifests/chart, from what kustomize installs
	@$(BIN)/python -m release.chart manifests/chart

chart-check: $(READY) ## Lint, validate and render the chart by Helm's own code, and compare it with kustomize
	@$(MAKE) --no-print-directory helm || echo "chart-check: Helm's SDK cannot be fetched; without it the chart is compared with manifests/ only" >&2
	@$(BIN)/python -m release.chart --check manifests/chart
	@$(BIN)/python -m pytest tests/manifests/test_chart.py

helm: build/helm/.ready ## Helm's SDK (of PyPI, by its hash) in build/helm, for tests of the chart

# Its one library comes three times, as wheels have no links.
build/helm/.ready: release/helm.lock
	@rm -rf build/helm && $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
	  --target build/helm -r release/helm.lock
	@cd build/helm/helm_python/lib && for one in libhelm_c.so.*; do [ ! -e "$$one" ] || ln -f libhelm_c.so "$$one"; done
	@touch $@

.PHONY: sbom audit
sbom: $(READY) ## What the image is made of, as CycloneDX JSON; writes build/sbom.json
	@mkdir -p build
	@$(BIN)/python -m release.sbom > build/sbom.json

.PHONY: wheels kubectl-tutti
wheels: $(READY) ## The wheel that `pipx install` takes, in dist, and what it asks for in build/wheel-sbom.json
	@rm -rf dist && mkdir -p build
	@$(BIN)/python -m hatchling build -t wheel -d dist
	@$(BIN)/python -m release.sbom --wheel dist/tutti-*.whl > build/wheel-sbom.json

PLATFORMS ?= linux-x86_64
kubectl-tutti: $(READY) ## kubectl-tutti as one file for PLATFORMS, with all that it needs for Python 3.11 to 3.13; writes build/
	@for one in $(PLATFORMS); do $(BIN)/python -m release.standalone --platform $$one build/kubectl-tutti-$$one || exit; done

audit: ## Ask for known vulnerabilities of what the image is made of (needs the network: exits 3 without it)
	@release/audit.sh

bench: $(READY) ## Our short scenarios through the embedded cluster; writes build/bench
	@$(BIN)/tutti bench bench/scenarios/*.yaml --embedded --label-filter short --topic tutti --data-items-dir build/bench

bench-envtest: $(READY) ## The same on a real kube-apiserver and etcd, and against a kube-scheduler beside them (KUBEBUILDER_ASSETS)
	@$(BIN)/python -m bench.envtest
	@$(BIN)/python -m bench.envtest --native-gangs

bench-start: $(READY) ## From the start to the first bind with 5,000 nodes and 50,000 pods: ARGS='--pods 100000'
	@$(BIN)/python -m bench.start $(ARGS)

bench-drain: $(READY) ## How close to a program that only binds, on a real kube-apiserver: ARGS='--nodes 5000 --live 300'
	@$(BIN)/python -m bench.drain $(ARGS)

bench-core: $(READY) ## How long the engine takes, and how much memory: no API server; writes build/bench-core.json
	@$(BIN)/python -m bench.core

bench-growth: $(READY) ## How decisions grow with nodes and pods; writes docs/growth.json and docs/growth.svg
	@$(BIN)/python -m bench.growth

bench-beside: $(READY) ## Drains that grow, through a real API server beside kube-scheduler and a program that only binds (KUBEBUILDER_ASSETS)
	@$(BIN)/python -m bench.beside $(ARGS)

bench-week: $(READY) ## A simulated week of 15,000 workloads in 30 queues, against Kueue's thresholds
	@$(BIN)/python -m bench.week

bench-api: $(READY) ## How fast the embedded API server is: creations, bindings, watch, lists
	@$(BIN)/python bench/api_server.py

bench-backfill: $(READY) ## How long a large gang waits behind small jobs, and what is in use meanwhile, by backfill mode
	@$(BIN)/python -m bench.backfill

bench-fragmentation: $(READY) ## What a day of mixed GPU jobs leaves free for large gangs, by how nodes are chosen
	@$(BIN)/python bench/fragmentation.py

e2e: $(READY) ## The user stories, on the embedded cluster
	@$(BIN)/python -m pytest e2e

e2e-kubelets: $(READY) ## The user stories, on real kubelets and a real control plane (KUBEBUILDER_ASSETS with kubemark)
	@lacking=$$($(BIN)/python -m e2e.harness.kubelets); if [ -n "$$lacking" ]; then echo "skipped: $$lacking"; \
	else $(BIN)/python -m pytest e2e --cluster kubelets --timeout 600; fi

e2e-node: $(READY) ## The image and the manifests on one real node, without Docker (root, containerd, runc, podman, debootstrap)
	@lacking=$$($(BIN)/python -m e2e.harness.node); if [ -n "$$lacking" ]; then echo "skipped: $$lacking"; \
	else $(BIN)/python -m pytest e2e --cluster node --timeout 1800; fi

e2e-kind: $(READY) ## The user stories, on kind (needs Docker: exits 3 without it)
	@PATH="$(CURDIR)/$(BIN):$$PATH" e2e/kind.sh

test-envtest: $(READY) ## The user stories, on a real kube-apiserver and etcd from KUBEBUILDER_ASSETS
	@if [ -z "$$KUBEBUILDER_ASSETS" ]; then \
	  echo "skipped: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (setup-envtest use -p path)"; \
	else $(BIN)/python -m pytest e2e tests/api/test_api_server.py --cluster envtest --timeout 300; fi

screens: $(READY) ## Draw the terminal views of a scene on the embedded cluster; writes docs/screens
	@$(BIN)/python -m tests.cli.views.screens docs/screens

lock: $(READY) ## Freeze the newest allowed versions into the lock files
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --upgrade --group dev --no-emit-package tutti pyproject.toml operator/pyproject.toml --output-file requirements.lock --custom-compile-command 'make lock'
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --constraint requirements.lock pyproject.toml --output-file requirements-runtime.lock --custom-compile-command 'make lock'

clean: ## Remove everything that was made here
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
