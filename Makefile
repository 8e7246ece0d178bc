# Commands for people and for CI. They need nothing but Python 3.11, 3.12 or 3.13; PYTHON=... names one.

VENV ?= .venv
DEMO_DIR ?= out/demo
PYTEST_ARGS ?=
# Processes that run tests, a file at a time; each takes up to 3 GB.
WORKERS ?= 2

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
NUMPY_2 := $(VENV)/numpy-2

# Tests find the environment's mpiexec on the PATH, and the browser by its variable (empty: none was found).
PYTEST = chromium="$$($(PY) scripts/chromium.py)" && \
	RL_CLARITY_CHROMIUM="$$chromium" PATH="$$(cd $(VENV)/bin && pwd):$$PATH" $(PY) -m pytest -n $(WORKERS) --dist loadfile

.PHONY: help demo onnxruntime docs test test-slow test-js train-series check lint types types-numpy-2 lint-js paths format js benchmarks constraints dist clean distclean

help:
	@echo "make demo        explain the shipped model: writes $(DEMO_DIR)/interface.html in about a minute"
	@echo "make test        all tests but the slow ones (PYTEST_ARGS='-k name' is passed on)"
	@echo "make test-slow   the slow tests"
	@echo "make check       style, types, JavaScript, paths of this machine"
	@echo "make format      fix style"
	@echo "make js          write the types of sections, and compile the page's script from svelte_src/"
	@echo "make onnxruntime fetch onnxruntime-web, which run --live writes beside pages"
	@echo "make docs        build the documentation: out/site/index.html"
	@echo "make benchmarks  measure each stage"
	@echo "make train-series  train the series of checkpoints that is included (hours; the same command resumes it)"
	@echo "make constraints write constraints.txt: the versions that are installed here"
	@echo "make dist        build the wheel and the source distribution"
	@echo "make clean       delete what was built; make distclean: the environment, too"

# --- environment ---------------------------------------------------------------------------------------------------

$(PY):
	python="$$(sh scripts/find_python.sh)" && "$$python" -m venv --clear $(VENV)

# Extras without a wheel for this machine (Procgen on a Mac) are left out by their markers.
$(INSTALLED): pyproject.toml setup.py | $(PY)
	$(PIP) install -e ".[procgen,tensorflow]"
	@touch $@

# PyPI's PyTorch for Linux includes gigabytes for GPUs: tests use its CPU build, and are skipped without it.
TORCH := torch==2.13.0$(if $(filter Linux,$(shell uname -s)),+cpu)
TORCH_INDEX := https://download.pytorch.org/whl/cpu

# The mpich package must not be installed beside another MPI; Node.js is only installed if there is none.
$(INSTALLED_DEV): pyproject.toml setup.py | $(PY)
	$(PIP) install --retries 1 --timeout 10 --extra-index-url $(TORCH_INDEX) "$(TORCH)" || \
		echo "$(TORCH) cannot be installed: tests that need PyTorch will be skipped"
	mpi=$$(command -v mpiexec > /dev/null && echo mpi || echo mpich) && \
		interop=$$($(PY) -c "import torch" 2> /dev/null && echo interop, || true) && \
		$(PIP) install -e ".[$${interop}atari,dev,hub,minari,procgen,tensorboard,tensorflow,$$mpi]"
	$(PY) -c "from svelte3.toolchain import find_node; find_node()" 2> /dev/null || $(PIP) install -e ".[node]"
	$(PY) -m scripts.fetch_onnxruntime || echo "onnxruntime-web cannot be fetched: tests that need it will be skipped"
	@touch $@ $(INSTALLED)

# The same packages with NumPy 2, for checking types: Procgen needs NumPy 1.
$(NUMPY_2): $(INSTALLED_DEV)
	rm -rf $@ && $(PY) -m venv --without-pip $@
	site="$$($@/bin/python -c 'import site; print(site.getsitepackages()[0])')" && \
		PIP_CONSTRAINT= $(PIP) install --quiet --no-deps --target "$$site" "numpy>=2" && \
		$(PY) -c 'import site; print(site.getsitepackages()[0])' > "$$site/environment.pth" || \
		{ rm -rf $@; echo "NumPy 2 cannot be installed: types are checked against the installed NumPy only"; }

constraints: $(INSTALLED_DEV)
	{ echo "# Tested versions, for PIP_CONSTRAINT; written by \`make constraints\` with Python 3.11 on Linux"; \
		$(PIP) freeze --all --exclude-editable | sed -e '/ @ /d' -e 's/+cpu$$//'; } > constraints.txt

dist: $(INSTALLED_DEV) onnxruntime
	rm -rf build dist
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(PY) -c "from setuptools.build_meta import build_sdist; build_sdist('dist')" > /dev/null

# --- use -----------------------------------------------------------------------------------------------------------

demo: $(INSTALLED)
	$(VENV)/bin/rl-clarity demo --output-dir "$(DEMO_DIR)"
	@echo "Open it in a browser."

# Wheels contain onnxruntime-web, the repository does not.
onnxruntime: $(INSTALLED)
	$(PY) -m scripts.fetch_onnxruntime

# The site includes the demo's page (scripts/docs_hooks.py); it is computed again only if something has changed.
docs: $(INSTALLED_DEV)
	$(VENV)/bin/rl-clarity demo --output-dir out/demo
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "Open out/site/index.html in a browser. Its search needs a server: python -m http.server --directory out/site"

benchmarks: $(INSTALLED_DEV)
	$(PY) -m benchmarks

train-series: $(INSTALLED_DEV)
	$(PY) -m scripts.make_series train out/breakout-series
	$(PY) -m scripts.make_series ship out/breakout-series breakout-series

# --- tests ---------------------------------------------------------------------------------------------------------

test: $(INSTALLED_DEV)
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)
	@$(MAKE) test-js

# pytest's status 5 (no test ran) is a failure, unless no test is marked slow.
test-slow: $(INSTALLED_DEV)
	@$(PYTEST) -m slow $(PYTEST_ARGS) || \
	{ status=$$?; test $$status -eq 5 && ! grep -rqs --include='*.py' 'mark\.slow' tests || exit $$status; }

test-js: $(INSTALLED_DEV)
	$(PY) -m svelte3 test svelte_src

# --- checks --------------------------------------------------------------------------------------------------------

check: lint types types-numpy-2 lint-js paths

lint: $(INSTALLED_DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(INSTALLED_DEV)
	$(PY) -m mypy

types-numpy-2: $(INSTALLED_DEV) $(NUMPY_2)
	test ! -d $(NUMPY_2) || $(PY) -m mypy --disallow-any-generics --disallow-untyped-calls \
		--python-executable $(NUMPY_2)/bin/python --cache-dir .mypy_cache/numpy-2

lint-js: $(INSTALLED_DEV)
	$(PY) -m svelte3 lint svelte_src

paths: $(INSTALLED_DEV)
	$(PY) scripts/check_paths.py

format: $(INSTALLED_DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(PY) -m svelte3 format svelte_src

js: $(INSTALLED_DEV)
	$(PY) -m scripts.make_sections
	$(PY) -c "import rl_clarity; rl_clarity.recompile_js()"

clean:
	rm -rf build dist out *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -not -path "./$(VENV)/*" -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
