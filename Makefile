# Each target does all of its own set-up: it needs make and Python 3.11 or later, nothing else.
PYTHON ?= python3
VENV ?= .venv
DEMO := $(VENV)/demo
TEST := $(VENV)/test
PIP_INSTALL := pip install --quiet --disable-pip-version-check

# With TORCH=1 the tests of numscope.capture run, too. They need PyTorch; a CPU build is enough.
TORCH_VERSION ?= 2.13.0

.PHONY: demo test lint bench clean

demo: $(DEMO)/.done
	$(DEMO)/bin/numscope analyze sample_dumps

test: lint $(if $(TORCH),$(TEST)/.torch-$(TORCH_VERSION))
	$(TEST)/bin/python -m pytest -n 2 --dist loadfile

lint: $(TEST)/.done
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy

bench: $(TEST)/.done $(if $(TORCH),$(TEST)/.torch-$(TORCH_VERSION))
	$(TEST)/bin/python -m tests.benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis numscope-out

# The demo has what a user has: numscope installed from this folder, anew whenever it has changed.
$(DEMO)/.done: pyproject.toml README.md $(shell find numscope -name '*.py')
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/$(PIP_INSTALL) .
	touch $@

# The tests have the folder itself installed, with what they and the linters need.
$(TEST)/.done: pyproject.toml
	$(PYTHON) -m venv $(TEST)
	$(TEST)/bin/$(PIP_INSTALL) --editable '.[test,lint]'
	touch $@

$(TEST)/.torch-%: $(TEST)/.done
	$(TEST)/bin/$(PIP_INSTALL) torch==$* || \
		{ echo 'torch==$* could not be installed: the tests of numscope.capture cannot run' >&2; exit 1; }
	touch $@
