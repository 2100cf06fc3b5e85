# Each target does its own set-up: Python 3.11 or newer with pip and venv is all it needs.
PYTHON ?= python3
BIN := .venv/bin
# pip's settings (mirrors, local wheels) belong to the account, also where HOME was emptied.
PIP_CONFIG_FILE ?= $(shell $(PYTHON) -c "import os, pathlib, pwd; f = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, '.config/pip/pip.conf'); print(f if f.is_file() else '')")
export PIP_CONFIG_FILE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test accept lint clean

demo: .venv/ready
	@for data in data/lynx_hare_1900_1920.csv demo/fsir.csv; do \
	  mkdir -p demo; \
	  test $$data != demo/fsir.csv || $(BIN)/odediscovery simulate fsir --out demo/fsir.csv || exit 1; \
	  echo; echo "== odediscovery fit $$data"; \
	  $(BIN)/odediscovery fit $$data --out demo/$$(basename $$data .csv) || exit 1; \
	done

test: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q -m "not accept" --durations=10
	$(BIN)/python -m pytest -q -o addopts= --nbmake --nbmake-timeout=300 notebooks

accept: .venv/ready
	$(BIN)/python -m pytest -q -m accept --durations=0

lint: .venv/ready
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# A fresh environment whenever the lock or the package's metadata change.
.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c "import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f'error: Python 3.11 or newer is needed, got {v.major}.{v.minor}; call make PYTHON=python3.11')"
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv demo build dist *.egg-info
