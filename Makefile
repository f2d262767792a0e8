# Two commands for a fresh machine: `make demo` and `make test`. Both make .venv first if there is none.

VENV := .venv
BIN := $(VENV)/bin
# The first Python of 3.11 or newer that can make a virtual environment. `make demo PYTHON=...` chooses another.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Also MinAtar, by a line of its own: it asks for plotting packages that nothing here uses.
EXTRAS := atari,box2d,ray,slurm,tensorboard,video,sb3,onnx,dev
# One test process per core, with one thread each, and one more, because some tests wait for others' programs.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.PHONY: demo test test-fast test-long setup lint docs site coverage bench bench-peers bench-steps bench-memory bench-kernels bench-checkpoints bench-coverage bench-evaluation bench-backends weather-oracle crash-test fault-test cluster-test slurm-test mutants classic clean help
help:
	@echo "make demo      install, train two agents on a built-in game, harden one, test all three (minutes)"
	@echo "make test-fast the quick tests, with the extra dev alone (about a minute)"
	@echo "make test      the tests, with all extras (at most ten minutes on two quiet cores)"
	@echo "make test-long the tests that take longest: kills, clusters, large studies (minutes)"
	@echo "make setup     install with all extras"
	@echo "make lint      ruff and mypy"
	@echo "make docs      write docs/api.md, the reference, from docstrings, settings and the command line"
	@echo "make site      the documentation as a site with search, in site/, which opens from disk (own .venv-site)"
	@echo "make coverage  tests with line coverage of maths/ and agent/ (at least 95 %)"
	@echo "make bench     time the solve and the update, side by side"
	@echo "make bench-peers    one update beside other libraries', and the parts of a step (own .venv-bench)"
	@echo "make bench-steps    the parts of an agent step, steps/s, cost by what is stored (7 GB)"
	@echo "make bench-memory   a replay of 1,000,000 steps, plain and compressed (10 minutes, 8 GB)"
	@echo "make bench-kernels  one update of each preset for pictures against the floor of its kernels"
	@echo "make bench-checkpoints  time and bytes of a checkpoint (10 minutes, 8 GB)"
	@echo "make bench-coverage  how often an interval from few seeds holds the truth (2 minutes)"
	@echo "make bench-evaluation  a test under four conditions beside the plain way with imgaug (5 minutes, own .venv-oracle)"
	@echo "make bench-backends  two runs bare, by the local pool and by Ray: times, and the same rows (15 minutes)"
	@echo "make weather-oracle our snow, rain and fog beside imgaug 0.4.0 (5 minutes, own .venv-oracle, Python 3.11)"
	@echo "make crash-test     60 kills at random moments, every ending compared by hash (10 minutes; KILLS=1000 for more)"
	@echo "make fault-test     damaged files, a full disk, races, bad numbers: what the user sees"
	@echo "make cluster-test   a node of a Ray cluster dies in the middle of an experiment (minutes)"
	@echo "make slurm-test     a real Slurm preempts runs, ends their time and loses their node (minutes; root installs Slurm)"
	@echo "make mutants        small changes to the code that the tests should notice; goes on where it was stopped (an hour)"
	@echo "make classic   CartPole, Acrobot and LunarLander: all agents, several seeds (an hour)"

$(VENV)/.made: | check-python
	$(PYTHON) -m venv $(VENV)
	@touch $@

.PHONY: check-python
check-python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv was found; install one, or name it: make PYTHON=..." >&2; exit 2; }

# The stamps depend on what decides the installation, so that a second call does nothing and an upgrade installs.
$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing dsacc into $(VENV) (a few minutes the first time)"
	$(PIP_INSTALL) --editable .
	@touch $@

# What the quick tests need. Where all extras are there already, pip has nothing to do.
$(VENV)/.dev: $(VENV)/.core pyproject.toml constraints.txt
	@echo "installing the extra: dev"
	$(PIP_INSTALL) --editable ".[dev]"
	@touch $@

$(VENV)/.all: $(VENV)/.core pyproject.toml constraints.txt
	@echo "installing the extras: $(EXTRAS)"
	$(PIP_INSTALL) --editable ".[$(EXTRAS)]"
	$(PIP_INSTALL) --no-deps MinAtar
	@touch $@

setup: $(VENV)/.all

demo: $(VENV)/.core
	$(BIN)/dsacc demo

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" tests

test: $(VENV)/.all
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not long"

test-long: $(VENV)/.all
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m long tests

coverage: $(VENV)/.all
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term-missing

lint: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict src/dsacc/maths

docs: $(VENV)/.core
	$(BIN)/python docs/make_api.py

# The site is made of files alone, docs/api.md among them, so its environment does not need dsacc and torch.
$(VENV)-site/.all: constraints.txt | check-python
	$(PYTHON) -m venv $(VENV)-site
	@echo "installing MkDocs into $(VENV)-site"
	$(VENV)-site/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt mkdocs-material
	@touch $@

# Not --quiet: MkDocs does not count the warnings that it does not show. The variable silences an advertisement.
site: $(VENV)-site/.all
	NO_MKDOCS_2_WARNING=1 $(VENV)-site/bin/mkdocs build --strict
	@echo "the site is in site/index.html"

bench: $(VENV)/.all
	$(BIN)/python benchmarks/update.py

# The peers bring many packages, so they get an environment of their own.
$(VENV)-bench/.all: pyproject.toml constraints.txt benchmarks/constraints.txt | check-python
	$(PYTHON) -m venv $(VENV)-bench
	@echo "installing dsacc and the peers into $(VENV)-bench"
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--constraint benchmarks/constraints.txt --editable ".[atari,bench]"
	@touch $@

bench-peers: $(VENV)-bench/.all
	$(VENV)-bench/bin/python benchmarks/peers.py
	$(VENV)-bench/bin/python benchmarks/steps.py

bench-steps: $(VENV)/.all
	$(BIN)/python benchmarks/steps.py

bench-memory: $(VENV)/.all
	$(BIN)/python benchmarks/memory.py

bench-kernels: $(VENV)/.all
	$(BIN)/python benchmarks/kernels.py --preset paper
	$(BIN)/python benchmarks/kernels.py --preset efficient --agent dsac-m

bench-checkpoints: $(VENV)/.all
	$(BIN)/python benchmarks/checkpoints.py

bench-coverage: $(VENV)/.all
	$(BIN)/python benchmarks/coverage.py

# imgaug 0.4.0 runs only on an old NumPy, and that only on Python 3.11.
ORACLE_PYTHON ?= python3.11
$(VENV)-oracle/.all: benchmarks/oracle-constraints.txt
	@command -v $(ORACLE_PYTHON) >/dev/null || { echo "imgaug 0.4.0 needs Python 3.11; install it, or name it: make weather-oracle ORACLE_PYTHON=..." >&2; exit 2; }
	$(ORACLE_PYTHON) -m venv $(VENV)-oracle
	@echo "installing imgaug 0.4.0 into $(VENV)-oracle"
	$(VENV)-oracle/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint benchmarks/oracle-constraints.txt imgaug==0.4.0 torch gymnasium ale-py lz4 psutil safetensors rich
	@touch $@

weather-oracle: $(VENV)/.all $(VENV)-oracle/.all
	$(BIN)/python benchmarks/weather.py --oracle $(VENV)-oracle/bin/python

bench-evaluation: $(VENV)/.all $(VENV)-oracle/.all
	$(BIN)/python benchmarks/evaluation.py --oracle $(VENV)-oracle/bin/python

bench-backends: $(VENV)/.all
	$(BIN)/python benchmarks/backends.py

# `make crash-test KILLS=1000 ONLY="train evaluate" SEED=7`: how many, of what, and the seed of the moments.
KILLS ?= 60
crash-test: $(VENV)/.all
	$(BIN)/python tests/robustness/crash.py --kills $(KILLS) $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED))

fault-test: $(VENV)/.all
	$(BIN)/python tests/robustness/faults.py
	DSACC_EXAMPLES=5000 $(BIN)/python -m pytest tests/runs/test_checkpoint.py -k gives_a_traceback

cluster-test: $(VENV)/.all
	$(BIN)/python tests/robustness/cluster.py

slurm-test: $(VENV)/.all
	$(BIN)/python tests/robustness/slurm.py

# In the background: one process with low priority. make mutants ROOMS="maths runs" SAMPLE=20 SEED=1
ROOMS ?=
SAMPLE ?= 50
SEED ?= 0
mutants: $(VENV)/.all
	PYTHONPATH=tests $(BIN)/python -m robustness.mutants $(ROOMS) --sample $(SAMPLE) --seed $(SEED)

classic: $(VENV)/.all
	$(BIN)/python benchmarks/classic.py

clean:
	rm -rf $(VENV) $(VENV)-site $(VENV)-bench $(VENV)-oracle demo dist site
