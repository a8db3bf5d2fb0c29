# make demo    build the sample dataset and show it        make setup   everything into .venv
# make test    each promise once; 12 minutes               make check   linters and types
# make test-all   the repetitions, too: all kills, clusters, attacks in every language; half an hour
# make sandbox-image   build the containers of the docker backend; PACKAGES="pandas scipy" IMAGE=NAME: with packages
# make soak    200,000 runs with kills: half an hour
# make docs    build the documentation into build/docs, and fail on a broken link
# make learn   from problems to a better model, with vLLM on the processor: six minutes; SEED=1 for another
# make swarm   a whole swarm on this machine; fails unless all cheats are thrown out; a few minutes
# make bench   measure, and write the numbers into the README and docs/numbers.md

PYTHON ?= python3
BIN := .venv/bin
RERUNS ?= 0
READY := .venv/ready
TRAIN := .venv/train
DOCS := .venv/docs

# Four processes on two cores, since many tests wait for limits. Files stay whole: their tests share what is slow to make.
AT_ONCE := --numprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: setup demo learn swarm test test-all check docs bench sandbox-image soak clean

setup: $(READY)

# The stamp is written last: a half-finished environment is made again.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "curate-code needs Python 3.11 or newer; choose one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || \
		{ rm -rf .venv; echo "cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,docker,ray,http,serve,dev]'
	@touch $(READY)

# vLLM and torch for processors and the trainers that exports are for, 2.4 GB: for tests, types and training, not for
# the demo.
$(TRAIN): $(READY) train/requirements-cpu.txt tests/requirements-exports.txt
	@torch=$$(grep '^torch==' train/requirements-cpu.txt); pip="$(BIN)/python -m pip install --quiet \
		--disable-pip-version-check --no-deps --no-compile"; \
		$$pip "$$torch" 2>/dev/null || $$pip --index-url https://download.pytorch.org/whl/cpu "$$torch"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
		-r train/requirements-cpu.txt -r tests/requirements-exports.txt
	@$(BIN)/python -W ignore -m compileall -qq -j 0 .venv/lib || true # pip takes one process; not all files are for this Python
	@touch $(TRAIN)

# What builds the documentation is small, but the demo does without it.
$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $(DOCS)

demo: $(READY)
	$(BIN)/curate build-dataset \
		--source taco=examples/raw/taco \
		--source synthetic1=examples/raw/synthetic1 \
		--source livecodebench=examples/raw/livecodebench \
		--out demo
	@$(BIN)/python examples/show.py demo

learn: $(READY) $(TRAIN)
	@examples/learn/run.sh $(or $(SEED),0)

swarm: $(READY) $(TRAIN)
	@$(BIN)/python examples/swarm/swarm.py runs/swarm

test: $(READY) $(TRAIN)
	$(BIN)/python -m pytest $(AT_ONCE) -m "not thorough"

test-all: $(READY) $(TRAIN)
	$(BIN)/python -m pytest $(AT_ONCE) --reruns $(RERUNS)

check: $(READY) $(TRAIN)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY) $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

bench: $(READY)
	$(BIN)/python -m benchmarks.sandbox
	$(BIN)/python -m benchmarks.ray
	$(BIN)/python -m benchmarks.front_ends
	$(BIN)/python -m benchmarks.build
	$(BIN)/python -m benchmarks.render

sandbox-image:
	@PYTHON=$(PYTHON) PACKAGES="$(PACKAGES)" IMAGE=$(IMAGE) sandbox/image/build.sh

soak: $(READY)
	$(BIN)/python -m benchmarks.soak

clean:
	rm -rf .venv demo build dist .pytest_cache .mypy_cache .ruff_cache
