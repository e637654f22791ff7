# What the Makefile of a house says after BELOW (the houses that it stands on), EXTRAS (its own, all of which are tested)
# and NEEDS (what its tests take beside pytest): an environment of its own, and its tests in it.
PY    ?= python3
VENV  := .venv
BIN   := $(VENV)/bin
ROOT  := ../..
HOUSE := $(notdir $(CURDIR))
TOOLS := pytest pytest-asyncio pytest-xdist pytest-timeout hypothesis flit-core
OWN   := $(if $(EXTRAS),.[$(EXTRAS)],.)

unexport PYTHONDONTWRITEBYTECODE
.PHONY: setup test test-all
.DEFAULT_GOAL := test

setup: $(VENV)/.installed

# The versions are those of the lock; a lock as a constraint would ask for hashes of the houses themselves.
$(VENV)/.installed: Makefile ../house.mk $(ROOT)/requirements-dev.lock $(wildcard ../*/pyproject.toml)
	$(PY) -m venv $(VENV)
	sed -nE 's/^([[:alnum:]._-]+==.*[^ \\]) *\\?$$/\1/p' $(ROOT)/requirements-dev.lock > $(VENV)/versions
	$(BIN)/python -m pip install --quiet --constraint $(VENV)/versions $(TOOLS) $(NEEDS)
	$(BIN)/python -m pip install --quiet --constraint $(VENV)/versions --no-build-isolation \
	  $(BELOW:%=--editable ../%) --editable '$(OWN)'
	touch $@

test: setup
	cd $(ROOT) && packages/$(HOUSE)/$(BIN)/pytest -n 2 --dist worksteal -m "not long" packages/$(HOUSE)/tests

test-all: setup
	cd $(ROOT) && HYPOTHESIS_PROFILE=all packages/$(HOUSE)/$(BIN)/pytest -n 2 --dist worksteal packages/$(HOUSE)/tests
