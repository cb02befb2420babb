# The targets are short on purpose: what they do stands in scripts/, one file each.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
WEIR := $(TARGET)/release/weir

export CARGO PREFIX DESTDIR WEIR

.DEFAULT_GOAL := help
.PHONY: help deps build demo demo-apache python test lint bench study-wasd soak soak-load fuzz install clean

help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Installs the Debian packages that are missing (as root or by sudo), and says what each is for.
	@scripts/deps

build: deps ## Builds the program.
	$(CARGO) build --release --package weir-cli

python: deps ## Builds the package for Python into $(TARGET)/python, for PYTHONPATH; no package index is asked.
	@scripts/python

demo: build ## Loads our own server with a sample site and explains where its requests' time went.
	@scripts/demo weir

demo-apache: build ## The same with Debian's Apache, in a configuration of its own.
	@scripts/demo apache

test: deps ## Runs all tests; the last line counts them.
	@scripts/test

lint: deps ## Checks the format and the lints; a warning is an error.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

bench: build ## Repeats our own figures into bench/RESULTS.md; QUICK=1 only tries them, ONLY="server io" chooses.
	@bench/run

study-wasd: build ## Repeats the WASD server's performance paper, under 30 minutes, and writes its page; QUICK=1: two minutes, for trying.
	@QUICK="$(QUICK)" studies/wasd/run

soak: build ## Explains load on real servers again and again for MINUTES (10): nothing may grow or be lost.
	@scripts/soak

soak-load: build ## Asks for REQUESTS (10000000) without a pause: the memory of the load generator stays below 50 MB.
	@scripts/soak-load

fuzz: deps ## Fuzzes each parser for FUZZ_SECONDS (60).
	@scripts/fuzz

# Built only where it is missing: the installing user, often root, need not have Rust.
$(WEIR):
	$(CARGO) build --release --package weir-cli

install: $(WEIR) ## Installs below $(DESTDIR)$(PREFIX): program, man pages, completions, licences.
	@scripts/install

clean: ## Removes what was built and the runs of the demos.
	$(CARGO) clean
	rm -rf runs
