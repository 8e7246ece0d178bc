# Commands for people and for CI. They need a Python 3.11 to 3.13 and nothing else; PYTHON=... names one.

VENV ?= .venv
DEMO_DIR ?= out/demo
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

# Tests find the environment's mpiexec on the PATH, and the browser by its variable (empty: none could be had).
PYTEST = chromium="$$($(PY) scripts/chromium.py)" && \
	RL_CLARITY_CHROMIUM="$$chromium" PATH="$$(cd $(VENV)/bin && pwd):$$PATH" $(PY) -m pytest

.PHONY: help demo test test-slow test-js check lint types lint-js paths format js benchmarks clean distclean

help:
	@echo "make demo        explain the shipped model: writes $(DEMO_DIR)/interface.html in about a minute"
	@echo "make test        all tests but the slow ones (PYTEST_ARGS='-k name' and the like are passed on)"
	@echo "make test-slow   the slow ones"
	@echo "make check       style, types, JavaScript, paths of this machine"
	@echo "make format      mend style"
	@echo "make js          compile the page's script from svelte_src/"
	@echo "make benchmarks  what each stage costs"
	@echo "make clean       delete what was built; make distclean: the environment, too"

# --- environment ---------------------------------------------------------------------------------------------------

$(PY):
	python="$$(sh scripts/find_python.sh)" && "$$python" -m venv --clear $(VENV)

# An extra without a wheel for this machine (Procgen on a Mac) is left out by its own marker.
$(INSTALLED): pyproject.toml setup.py | $(PY)
	$(PIP) install -e ".[procgen,tensorflow]"
	@touch $@

# PyPI's PyTorch for Linux brings gigabytes for graphics cards: tests have its CPU build, or are skipped without one.
TORCH := torch==2.13.0$(if $(filter Linux,$(shell uname -s)),+cpu)
TORCH_INDEX := https://download.pytorch.org/whl/cpu

# The mpich package must not stand beside another MPI; Node.js is only installed where there is none.
$(INSTALLED_DEV): pyproject.toml setup.py | $(PY)
	mpi=$$(command -v mpiexec > /dev/null && echo mpi || echo mpich) && $(PIP) install -e ".[atari,dev,procgen,tensorflow,$$mpi]"
	$(PY) -c "from svelte3.toolchain import find_node; find_node()" 2> /dev/null || $(PIP) install -e ".[node]"
	$(PIP) install --retries 1 --timeout 10 --extra-index-url $(TORCH_INDEX) "$(TORCH)" || \
		echo "$(TORCH) cannot be had here: tests that need PyTorch will be skipped"
	@touch $@ $(INSTALLED)

# --- use -----------------------------------------------------------------------------------------------------------

demo: $(INSTALLED)
	$(VENV)/bin/rl-clarity demo --output-dir "$(DEMO_DIR)"
	@echo "Open it in a browser."

benchmarks: $(INSTALLED_DEV)
	$(PY) -m benchmarks

# --- tests ---------------------------------------------------------------------------------------------------------

test: $(INSTALLED_DEV)
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)
	@$(MAKE) test-js

# pytest's status 5 (no test ran) is a failure, unless no test is marked slow at all.
test-slow: $(INSTALLED_DEV)
	@$(PYTEST) -m slow $(PYTEST_ARGS) || \
	{ status=$$?; test $$status -eq 5 && ! grep -rqs --include='*.py' 'mark\.slow' tests || exit $$status; }

test-js: $(INSTALLED_DEV)
	$(PY) -m svelte3 test svelte_src

# --- checks --------------------------------------------------------------------------------------------------------

check: lint types lint-js paths

lint: $(INSTALLED_DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(INSTALLED_DEV)
	$(PY) -m mypy

lint-js: $(INSTALLED_DEV)
	$(PY) -m svelte3 lint svelte_src

paths: $(INSTALLED_DEV)
	$(PY) scripts/check_paths.py

format: $(INSTALLED_DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(PY) -m svelte3 format svelte_src

js: $(INSTALLED_DEV)
	$(PY) -c "import rl_clarity; rl_clarity.recompile_js()"

clean:
	rm -rf build dist out *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -not -path "./$(VENV)/*" -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
