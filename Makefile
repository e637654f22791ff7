# Two commands do everything, set-up included: `make demo` and `make test`. CI runs `make test-all`.
PY      ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
DEMO    := $(VENV)/.demo
HOUSES  := scheduler workloads workbench cluster kueue
PROJECTS := $(wildcard packages/*/pyproject.toml)
# Berth itself, from this clone: the dependencies are there by their lock.
INSTALL := $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(HOUSES:%=--editable packages/%)

# Tests start some forty processes: these read compiled modules, as those of an installation do.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup browser demo test test-all lint types contracts unit unit-all soak pictures bench lock sbom audit \
        release-check release clean
.DEFAULT_GOAL := test

setup: $(STAMP)

$(STAMP): requirements-dev.lock $(PROJECTS)
	$(PY) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock
	$(INSTALL)
	touch $@

# Debian's Chromium, in which tests look at the page. Without it, and without the right to install it, they are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get update -q && apt-get install -q -y --no-install-recommends chromium; } || \
	      echo "Chromium could not be installed: in CI the tests of the page fail without it, elsewhere they are skipped"; \
	  else echo "Chromium is missing: install the package chromium, or the tests of the page are skipped"; fi; }

# The demo needs what the image has, a third of what the tests need; where the tests' packages are, nothing is installed.
demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO))
	@echo "==> berth demo"
	@$(BIN)/berth demo

$(DEMO): requirements.lock $(PROJECTS)
	@echo "==> 1 of 3: a virtual environment in $(VENV)"
	@$(PY) -m venv $(VENV)
	@echo "==> 2 of 3: what the demo needs, some 50 packages, into $(VENV); this is done once"
	@$(BIN)/python -m pip install --require-hashes --requirement requirements.lock
	@echo "==> 3 of 3: Berth itself, from this clone"
	@$(INSTALL)
	@touch $@

test: lint types contracts unit

# With everything that takes long: more histories and examples, mutants, what may come and go, processes that are
# killed, the page in a browser. docs/testing.md says what is left to it.
test-all: lint types contracts unit-all

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

# House by house, and at last what takes several; what fails does not keep the rest from being tested.
PARTS := $(HOUSES:%=packages/%/tests) packages/plugins/tests tests
unit: setup
	@failed=; for part in $(PARTS); do \
	  echo "==> $$part"; $(BIN)/pytest -n 2 --dist worksteal -m "not long" --ignore tests/soak $$part || failed="$$failed $$part"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Each house in an environment of its own, with nothing of the houses above it; what takes several in that of all.
unit-all: setup browser
	@failed=; for house in $(HOUSES) plugins; do \
	  echo "==> packages/$$house, alone"; $(MAKE) --no-print-directory -C packages/$$house test-all || failed="$$failed $$house"; \
	done; \
	echo "==> tests"; HYPOTHESIS_PROFILE=all $(BIN)/pytest -n 2 --dist worksteal --histories 1000 --ignore tests/soak tests \
	  || failed="$$failed tests"; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Draws the pictures of the documents anew.
pictures: setup browser
	$(BIN)/python -m packages.workbench.tests.pictures

soak: setup
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n 2 --timeout 3600 tests/soak \
	  $(addprefix packages/scheduler/tests/,state framework queue plugins cycle)

bench: setup
	$(BIN)/python benchmarks/run.py

# Needs uv (pip install uv); run it after changing a dependency. What ships is a part of what is tested, to the version.
UV ?= uv
COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
          --python-version 3.11 --custom-compile-command "make lock" --no-emit-package berth-scheduler-plugins \
          $(HOUSES:%=--no-emit-package berth-%)
SHIPPED = $(COMPILE) packages/scheduler/pyproject.toml --extra cluster --extra workbench --extra kueue --extra uvloop --extra otel \
          --group pyproject.toml:build --constraint requirements-dev.lock
lock:
	$(COMPILE) $(PROJECTS) --all-extras --group pyproject.toml:dev --output-file requirements-dev.lock
	$(SHIPPED) --output-file requirements.lock
	$(SHIPPED) --extra ui --output-file requirements-page.lock

# What ships, as CycloneDX: read off an environment into which nothing but the shipped lock is installed.
sbom: setup
	rm -rf build/shipped
	$(PY) -m venv --without-pip build/shipped
	$(BIN)/python -m pip --python build/shipped/bin/python install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/cyclonedx-py environment --pyproject packages/scheduler/pyproject.toml --mc-type application --output-reproducible \
	  --spec-version 1.6 --output-format JSON --output-file build/sbom.cdx.json build/shipped/bin/python
	@echo "build/sbom.cdx.json is written"

# All of a release that needs no registry, in build/release; docs/support.md says what is in it. TAG=v0.1.0 checks that, too;
# STRICT=--strict fails where Helm is missing, and SBOM= leaves out the list of parts. Needs the network, for an empty environment.
RELEASE := build/release
SBOM    ?= sbom
release-check: setup
	$(BIN)/python deploy/release.py versions --tag "$(TAG)"
	$(BIN)/python deploy/release.py build $(RELEASE)
	$(BIN)/python deploy/release.py try $(RELEASE)
	$(BIN)/python deploy/release.py chart $(RELEASE) $(STRICT)
	$(BIN)/python deploy/release.py krew $(RELEASE)
	$(if $(SBOM),$(MAKE) $(SBOM))
	$(if $(SBOM),$(BIN)/python deploy/release.py parts build/sbom.cdx.json && cp build/sbom.cdx.json $(RELEASE)/)
	$(BIN)/python deploy/release.py sums $(RELEASE)

# Publishes what release-check has made, to REGISTRY; DRY=--dry-run only says how.
release:
	$(PY) deploy/release.py publish $(RELEASE) $(REGISTRY) $(DRY)

# Needs the network. DATABASE=pypi asks PyPI instead of OSV. Ends with 3 where not every package could be audited.
DATABASE ?= osv
audit: setup
	$(BIN)/python deploy/audit.py $(DATABASE) requirements.lock requirements-page.lock requirements-dev.lock

clean:
	rm -rf build $(VENV) packages/*/.venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .berth
