# Everything is made and tested from here. `make help` lists the targets.

PYTHON  ?= python3
VENV    := .venv
CARGO   ?= cargo
SECONDS ?= 12
LOCK    ?= on
SEED    ?=
MINUTES ?= 5
OPTIONS ?=
PREFIX  ?= /usr/local
# `release` is quick to make; `dist` is what is released and measured.
PROFILE ?= release
BUILT   := target/$(PROFILE)
OLDEST_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: help setup build rust program static python node c demo test full faults redisson restarts bench sim prove mutants install \
	dist dist-check dist-native windows smoke oldest-rust compatible site site-look pictures clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: ## install what the tests need and this machine lacks, or name it where that cannot be
	tests/setup.sh test

build: python node c rust ## the libraries of all languages; the wheel in target/wheels, installed in .venv

# One call of cargo for what users get. The steps behind it put that where each language looks.
packages:
	$(CARGO) packages --profile $(PROFILE) $(WORKERS)

rust: ## the programs of the tests and the simulator, in target/release
	$(CARGO) build --release --locked --workspace --bins

$(VENV)/.tools: py/requirements-dev.txt tests/python/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r py/requirements-dev.txt -r tests/python/requirements.txt
	touch $@

# The program goes into the wheel as it is, and from there into the folder of the environment's programs.
# With it go its pages and completions.
DATA := py/quorlock.data
SHARE := $(DATA)/data/share
program: packages
	mkdir -p $(DATA)/scripts $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
		$(SHARE)/fish/vendor_completions.d
	cp $(BUILT)/quorlock $(DATA)/scripts/
	$(BUILT)/quorlock man --dir $(SHARE)/man/man1
	$(BUILT)/quorlock completions bash > $(SHARE)/bash-completion/completions/quorlock
	$(BUILT)/quorlock completions zsh > $(SHARE)/zsh/site-functions/_quorlock
	$(BUILT)/quorlock completions fish > $(SHARE)/fish/vendor_completions.d/quorlock.fish

# One file that runs on any Linux of this kind of processor.
MUSL := $(shell uname -m)-unknown-linux-musl
static: ## the command `quorlock` as one file without dependencies: target/static/quorlock
	rustup target add $(MUSL)
	CC_$(subst -,_,$(MUSL))=$${CC:-cc} $(CARGO) build --profile dist --locked --target $(MUSL) --target-dir target/static -p quorlock-cli
	cp target/static/$(MUSL)/dist/quorlock target/static/quorlock

# What .cargo/config.toml tells cargo, for maturin, which does not read that.
export PYO3_CONFIG_FILE := $(CURDIR)/py/pyo3.cfg
export PYO3_BUILD_EXTENSION_MODULE := 1
python: $(VENV)/.tools program ## the wheel, and a Python environment with it
	rm -f target/wheels/quorlock-*.whl
	$(VENV)/bin/maturin build --profile $(PROFILE) --locked --manifest-path py/Cargo.toml --out target/wheels --interpreter $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/quorlock-*.whl

node/node_modules/.package-lock.json: node/package-lock.json
	npm ci --loglevel error --prefix node
	touch $@

node: packages node/node_modules/.package-lock.json ## the Node package, in place
	PROFILE=$(PROFILE) npm run --silent build --prefix node

# Bun, Deno and the releases of Node that the package is tested on besides the machine's own.
tests/node/runtimes/node_modules/.package-lock.json: tests/node/runtimes/package-lock.json
	npm ci --loglevel error --ignore-scripts --prefix tests/node/runtimes
	touch $@

# The frameworks that the tests of the Node package run it under.
tests/node/node_modules/.package-lock.json: tests/node/package-lock.json
	npm ci --loglevel error --ignore-scripts --prefix tests/node
	touch $@

c: packages ## the C library and header, in target/c/prefix, and the programs of its tests
	ffi-c/build.sh $(BUILT)
	$(PYTHON) tests/c/run.py --build $(C_PROGRAMS)

install: ## the C library, headers, pkg-config and CMake files, below PREFIX (default /usr/local)
	$(CARGO) packages --profile dist
	PREFIX=$(PREFIX) BUILT=$(CURDIR)/target/dist ffi-c/install.sh

demo: ## processes of all languages contend for one lock while nodes die (LOCK=off: the check can fail)
	tests/setup.sh demo
	$(MAKE) python node c WORKERS='-p quorlock-tests --bin chaos-worker' C_PROGRAMS=chaos-worker
	$(VENV)/bin/python tests/chaos/chaos.py demo --seconds $(SECONDS) --lock $(LOCK)

# A tier has its steps and their times in tests/run.py.
check: ## first of all, 3 min after `make build`: format, lints, unit tests, Rust's scenarios, tables
	tests/setup.sh test
	$(MAKE) build
	$(VENV)/bin/python tests/run.py --tier check

test: ## before a change is proposed, 13 min after `make build`: every language's tests and scenarios; ends with `N passed, M failed`
	tests/setup.sh test
	$(MAKE) build tests/node/node_modules/.package-lock.json
	$(VENV)/bin/python tests/run.py --tier test

gate: ## the rest of what CI runs, 35 min: seeded bugs, bytes, clusters, model, fuzz, other servers, faults, failovers, packages
	tests/setup.sh gate
	$(MAKE) build tests/node/node_modules/.package-lock.json tests/node/runtimes/node_modules/.package-lock.json
	$(VENV)/bin/python tests/run.py --tier gate

sim: ## the simulator; SEED=n tells one schedule, SHRINK=1 a shorter one, BYTES=1 over streams of bytes, CLUSTERS=1 over links to clusters, DEATHS=1 with tasks that end (tests/sim/README.md)
	@$(if $(MUTANT),$(PYTHON) tests/sim/bugs.py >/dev/null && cd target/mutants/tree && RUSTFLAGS="--cfg mutants" CARGO_TARGET_DIR=.. )$(CARGO) build --release -q --workspace --bin quorlock-sim
	@target/$(if $(MUTANT),mutants/)release/quorlock-sim \
		$(if $(SEED),replay $(SEED) $(if $(BYTES),--bytes) $(if $(CLUSTERS),--clusters) $(if $(DEATHS),--deaths) --without '$(WITHOUT)' $(if $(SHRINK),--shrink $(if $(SECONDS),--seconds $(SECONDS))),run $(if $(BYTES),--bytes) $(if $(DEATHS),--deaths) $(if $(CLUSTERS),--clusters --schedules 20000,--schedules 300000)) $(if $(MUTANT),--mutant $(MUTANT))

prove: ## the rules proven by Z3 and checked by TLC, and the code beside them, 5 min; docs/proof says what that comes to
	tests/setup.sh gate
	$(CARGO) build --release --locked -p quorlock-proof
	$(PYTHON) docs/proof/prove.py

mutants: ## seeded bugs are caught by the simulator
	$(PYTHON) tests/sim/mutants.py

full: ## long runs, by hand: 10,000 leases, 200,000 cycles, 150 faults of leaders, 240 failovers, peers' suites, libraries of Go and Rust on one key, the simulator's pace, seeded bugs, several locks at once, C in valgrind, what has to fail, everything fuzzed
	tests/setup.sh full
	$(MAKE) build tests/node/node_modules/.package-lock.json
	$(VENV)/bin/python tests/full.py

dist: ## all that is released, for Linux on x86_64 and aarch64, glibc and musl: target/packages/files
	.ci/dist/build.py

dist-check: ## the same twice, compared byte by byte, installed in empty places, and looked at by the registries' tools
	tests/setup.sh dist
	# Both at once: each leaves a processor idle for much of the time.
	.ci/dist/build.py --out target/packages-again & again=$$!; .ci/dist/build.py && wait $$again
	tests/dist/check.py --again target/packages-again/files

dist-native: python node c ## this machine's packages, of what it has built: target/dist-native/files; PROFILE=dist is for others
	PROFILE=$(PROFILE) .ci/dist/build.py --native

windows: ## everything but the command compiles for Windows; core's and C's tests run by Wine
	tests/setup.sh windows
	tests/windows/run.py

smoke: python node ## some tests of each language, for a system that has not all that `make test` needs
	$(CARGO) test --release -q -p quorlock --lib
	$(VENV)/bin/python tests/run.py readme first-lock

oldest-rust: ## the oldest Rust that is supported compiles all that users build
	rustup toolchain install --profile minimal $(OLDEST_RUST)
	$(CARGO) +$(OLDEST_RUST) check --locked -p quorlock -p quorlock-cli -p quorlock-c -p quorlock-node -p quorlock-python \
		--target-dir target/oldest-rust

compatible: ## what programs use of the last release is still there: C's symbols, and Rust's API
	.ci/dist/compatible.py

faults: build ## processes of all languages, five servers, every fault, for MINUTES; SEED=n repeats its faults
	$(VENV)/bin/python tests/chaos/chaos.py faults --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(OPTIONS)

redisson: build ## the real Redisson, in Java, and Quorlock as one lock, on a real server
	tests/setup.sh redisson
	$(VENV)/bin/python tests/interop/redisson/run.py

restarts: build ## 1,000 restarts without data, 100 of all nodes, 200 clock steps, under a held lock; 15 min
	$(VENV)/bin/python tests/chaos/chaos.py restarts cycles $(OPTIONS)
	$(VENV)/bin/python tests/chaos/chaos.py restarts all-at-once $(OPTIONS)
	$(VENV)/bin/python tests/chaos/chaos.py restarts clock $(OPTIONS)

site: ## the site of documentation, in target/site
	$(PYTHON) tests/docs/build.py

site-look: ## each page of it in headless Chromium: light and dark, narrow and wide, contrast and texts
	tests/setup.sh site
	$(PYTHON) tests/docs/build.py --look

pictures: python ## the pictures of the site, from locks on real servers and the last run of `make faults`
	$(VENV)/bin/python tests/docs/pictures.py --record

bench: ## peers beside us, on a quiet machine, 2 h, with the profile `dist`; writes docs/explanation/results.md and its plots
	$(MAKE) python node c PROFILE=dist
	$(PYTHON) tests/bench/bench.py

clean: ## remove what was built
	rm -rf target $(VENV)
