# Every target makes what it needs: a clean clone wants nothing but make and Python 3.11 or later.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PACKAGES := answerkey metrics_core tasks flows
CHECKED := $(PACKAGES) $(wildcard deployments benchmarks tests)

# The Python that makes the virtual environment. A candidate is run, not just looked up: a version manager's
# stand-in can be on the PATH for a Python that is not there.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
ifndef PYTHON
PYTHON = $(shell for p in python3.11 python3; do \
	"$$p" -c '$(NEW_ENOUGH)' 2>/dev/null && { echo "$$p"; break; }; done)
endif

define CHECK_PYTHON
if [ -z "$(PYTHON)" ]; then echo "answerkey needs Python 3.11 or later: none found as python3.11 or" \
	"python3; name one with make PYTHON=/path/to/python" >&2; exit 1; fi; \
"$(PYTHON)" -c '$(NEW_ENOUGH)' || { echo "answerkey needs Python 3.11 or later, and $(PYTHON) is not" >&2; exit 1; }
endef

# uv installs in a fifth of pip's time. Where it is not on the PATH, pip puts it into a folder of its own.
UV_VERSION := 0.13.9
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
PYTEST = $(BIN)/python -m pytest -q -n auto --dist loadgroup --durations 10
NEW := v2
UV_INSTALL = $(UV) pip install -q --python $(BIN)/python
export UV_CONSTRAINT := constraints.txt
export UV_BUILD_CONSTRAINT := constraints.txt
export UV_PYTHON_DOWNLOADS := never
# uv reads no settings of pip: whoever names an index or a folder of packages to pip means uv as well.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_EXTRA_INDEX_URL
export UV_INDEX ?= $(PIP_EXTRA_INDEX_URL)
endif
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif
# Tests and commands start hundreds of processes: each would compile the project again where no bytecode is kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: evaluate
evaluate: $(RUNTIME) ## evaluate two releases of a help desk, and decide whether the new one may ship (NEW=v3: a worse one)
	@$(BIN)/answerkey evaluate examples/helpdesk/v1.csv examples/helpdesk/$(NEW).csv \
		--references examples/helpdesk/questions.jsonl --config examples/helpdesk/evaluate.yaml \
		--policy examples/helpdesk/gate.yaml $(ARGS)

.PHONY: serve
serve: $(RUNTIME) ## start a Prefect server with all flows, for the browser (ARGS="--port 4300")
	@$(BIN)/answerkey serve $(ARGS)

.PHONY: test
test: $(DEV) ## run what shows in minutes whether all works: levels unit and flow (ARGS="-k rouge -x" goes to pytest)
	@$(PYTEST) -m "unit or flow" $(ARGS)

.PHONY: test-unit
test-unit: $(DEV) ## run the level unit: tables of pure functions
	@$(PYTEST) -m unit tests/metrics_core $(ARGS)

.PHONY: test-flow
test-flow: $(DEV) ## run the level flow: commands and flows in one process
	@$(PYTEST) -m flow --ignore tests/metrics_core $(ARGS)

.PHONY: test-real
test-real: $(DEV) ## run the level real: a Prefect server, a browser, a cluster, processes that are killed
	@$(PYTEST) -m real $(ARGS)

.PHONY: test-nightly
test-nightly: $(DEV) ## run the level nightly: simulations, all kills and faults, other installations (about an hour)
	@$(PYTEST) -m nightly $(ARGS)

.PHONY: lint
lint: $(DEV) ## check style, types and the direction of imports
	@$(BIN)/ruff check -q $(CHECKED)
	@$(BIN)/ruff format -q --check $(CHECKED)
	@$(BIN)/mypy --strict -p answerkey
	@$(BIN)/lint-imports --no-logo

.PHONY: bench
bench: $(DEV) ## run all benchmarks beside other libraries, and write docs/benchmarks.md (ARGS="lexical --rounds 3")
	@$(BIN)/python benchmarks/bench.py $(ARGS); status=$$?; $(BIN)/python docs/make_benchmarks.py && exit $$status

.PHONY: train-matcher
train-matcher: $(DEV) ## train the offline matcher on ../shared/data and write its model file
	@$(BIN)/python benchmarks/studies/train_matcher.py --write $(ARGS)

.PHONY: docs
docs: $(DEV) ## write the documentation as a site to build/site; a link that leads nowhere is an error
	@env -u ANSWERKEY_HOME NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

.PHONY: pictures
pictures: $(DEV) ## photograph the pages that the README shows; needs Chromium
	@$(BIN)/python docs/make_pictures.py

.PHONY: setup
setup: $(DEV) ## install everything into .venv (the other targets do it by themselves)
	@echo "$(VENV) is ready"

.PHONY: clean
clean: ## remove .venv, caches and build output; the reports in .answerkey stay
	@rm -rf $(VENV) .uv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an install that failed or was stopped is tried again.
$(RUNTIME): pyproject.toml constraints.txt | $(UV)
	@$(CHECK_PYTHON)
	@echo "installing pinned dependencies into $(VENV) (once, half a minute)"
	@$(UV) venv -q --seed --allow-existing --python "$(PYTHON)" $(VENV)
	@$(UV_INSTALL) -e .
	@touch $@

$(DEV): $(RUNTIME)
	@echo "installing the tools for tests and lint into $(VENV) (once)"
	@$(UV_INSTALL) -e '.[cluster,dev,docs,sentence-transformers]'
	@touch $@

# A Python without pip brings it into a virtual environment.
.uv/bin/uv:
	@$(CHECK_PYTHON)
	@echo "installing uv into .uv (once)"
	@"$(PYTHON)" -m pip install -qq --disable-pip-version-check --target .uv uv==$(UV_VERSION) 2>/dev/null || \
		{ "$(PYTHON)" -m venv .uv && .uv/bin/python -m pip install -qq uv==$(UV_VERSION); }
