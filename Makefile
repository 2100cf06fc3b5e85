# Each target does its own set-up: Python 3.11 or newer with pip and venv is all it needs.
PYTHON ?= python3
BIN := .venv/bin
# pip's settings (mirrors, local wheels) belong to the account, also where HOME was emptied.
PIP_CONFIG_FILE ?= $(shell $(PYTHON) -c "import os, pathlib, pwd; f = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, '.config/pip/pip.conf'); print(f if f.is_file() else '')")
export PIP_CONFIG_FILE
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# pytest rewrites the assertions of every test file, ten seconds of processor time, unless it may keep them.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo fast test seconds golden long coverage accept lint docs wheel-test clean

demo: .venv/ready
	@for data in data/lynx_hare_1900_1920.csv demo/fsir.csv; do \
	  mkdir -p demo; \
	  test $$data != demo/fsir.csv || $(BIN)/odediscovery simulate fsir --out demo/fsir.csv || exit 1; \
	  echo; echo "== odediscovery fit $$data"; \
	  $(BIN)/odediscovery fit $$data --out demo/$$(basename $$data .csv) || exit 1; \
	done
	@$(BIN)/python .ci/picture.py demo/lynx_hare_1900_1920 docs/assets

# Where shapes are annotated; whole fits while they are checked are `long`.
SHAPES := tests/ivp tests/solve tests/fitting tests/stages
QUICK_NOTEBOOKS := notebooks/03_adding_a_unit.ipynb notebooks/gallery/1_yeast.ipynb
NOTEBOOKS := -q -o addopts= -n 2 --nbmake --nbmake-timeout=300
# The longest files begin first, so that two processes end together.
TWO := -n 2 --dist loadfile --no-loadscope-reorder

# A minute of processor time: what takes longer is slow, by tests/files/seconds.txt.
fast: export OMP_NUM_THREADS = 1
fast: .venv/ready
	$(BIN)/python -m pytest -q -m "not slow" $(TWO)

# Two processes with a thread each: what tests compute is small. Shapes have a run of their own, since
# checking them makes a fit ten times as long.
test: export OMP_NUM_THREADS = 1
test: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q -m "not accept and not long" --durations=10 $(TWO)
	$(BIN)/python -m pytest -q --shapes -m "not slow" -n 2 $(SHAPES)
	$(BIN)/python -m pytest $(NOTEBOOKS) $(QUICK_NOTEBOOKS)

# How long tests take, of which `make fast` leaves the slow ones out; one process, so that times are its own.
seconds: export OMP_NUM_THREADS = 1
seconds: .venv/ready
	$(BIN)/python -m pytest -q -m "not accept" --seconds

# Every kind of fit and the pages of the commands, beside what was found before; see tests/golden/replay.py.
golden: export OMP_NUM_THREADS = 1
golden: .venv/ready
	PYTHONPATH=tests $(BIN)/python -m golden --only "$(ONLY)" --every $(or $(EVERY),1) $(if $(RECORD),--record)

# What CI cannot wait for: tests that take longer, whole fits while shapes are checked, all notebooks.
long: export OMP_NUM_THREADS = 1
long: .venv/ready
	$(BIN)/python -m pytest -q -m long --durations=10 $(TWO)
	$(BIN)/python -m pytest -q --shapes -m "shapes or not slow" -n 2 $(SHAPES) tests/discovery
	$(BIN)/python -m pytest $(NOTEBOOKS) notebooks

# All but the acceptance checks while lines are counted, which doubles their time: at least 92 % have to be run.
coverage: export OMP_NUM_THREADS = 1
coverage: .venv/ready
	$(BIN)/python -m pytest -q -m "not accept" $(TWO) --cov --cov-report=term

accept: long
	$(BIN)/python -m pytest -q -m accept --durations=0

lint: .venv/ready
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m mypy

# Without a network once installed; a warning is an error (`strict` in mkdocs.yml). The docstrings are
# read, not run, so this environment has no torch.
docs: .venv-docs/ready .venv/ready
	$(BIN)/python docs/search_page.py > docs/search.md
	PYTHONPATH=tests/judge $(BIN)/python docs/notes_page.py > docs/notes.md
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet
	@echo "site/index.html"

.venv-docs/ready: docs/requirements.lock
	$(PYTHON) -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip install --quiet -r docs/requirements.lock
	touch $@

# Wheel and sdist, each in an environment that holds nothing else: a fit, a table of the package, the
# types. Most of its minutes go into torch.
wheel-test: .venv/ready
	rm -rf build dist
	$(BIN)/python -c "from setuptools import build_meta as b; b.build_wheel('dist'); b.build_sdist('dist')" >/dev/null
	@for package in dist/*.whl dist/*.tar.gz; do \
	  echo "== $$package"; \
	  $(PYTHON) -m venv --clear build/empty && \
	  build/empty/bin/python -m pip install --quiet -c requirements.lock "$$package" && \
	  (cd build/empty && bin/python -I $(CURDIR)/.ci/installed.py) || exit 1; \
	done

# A fresh environment whenever the lock or the package's metadata change.
.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c "import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f'error: Python 3.11 or newer is needed, got {v.major}.{v.minor}; call make PYTHON=python3.11')"
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv .venv-docs site demo build dist *.egg-info
