# The targets are short on purpose: what they do stands in scripts/, one file each.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
WEIR := $(TARGET)/release/weir
CAUSES_TOOLS := weir,offcputime,opentelemetry
CAUSES_QUICK = --only 'flock-held*,php-page-sleeps,nginx-compresses,gunicorn-one-worker' --results $(TARGET)/causes/results \
	--page $(TARGET)/causes/RESULTS.md
ARM := $(TARGET)/release/libarm4.so $(TARGET)/release/libarm.so

export CARGO PREFIX DESTDIR WEIR

.DEFAULT_GOAL := help
# Two at a time would both ask apt-get for packages; Cargo keeps the CPUs busy by itself.
.NOTPARALLEL:
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*## .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Installs all Debian packages that are missing (as root or by sudo), and says what each is for.
	@scripts/deps

build-deps: ## Installs of these only what `make build` needs.
	@scripts/deps build

build: build-deps ## Builds the program, and the ARM libraries for C.
	$(CARGO) build --release --package weir-cli --package weir-arm-c --package weir-arm2-c

python: deps ## Builds the package for Python into $(TARGET)/python, for PYTHONPATH; no package index is asked.
	@scripts/python

demo: build ## Loads our own server with a sample site and explains where its requests' time went.
	@scripts/demo weir

demo-php: build ## The same with a page of PHP that asks PostgreSQL, down to the statement; installs both.
	@scripts/deps build demo-php
	@scripts/demo-php

demo-cluster: build ## A cluster on this machine: a download moves between nodes, one is drained, one killed. As root, under a minute.
	@scripts/deps build demo-cluster
	@scripts/demo-cluster

demo-apache: build ## The same with Debian's Apache, which it installs, in a configuration of its own.
	@scripts/deps build demo
	@scripts/demo apache

arm-clients: deps build ## Fetches, builds and runs programs of others against the ARM libraries; says which and how they did.
	@scripts/arm-clients

test: deps ## Runs all tests; the last line counts them. TESTS=--lint checks what `make lint` does as well.
	@scripts/test $(TESTS)

test-acme: build-deps ## Tests certificates by ACME against Pebble, Let's Encrypt's test server, which Go builds.
	@scripts/test-acme

test-cluster: deps ## Repeats the faults of etcd under publications ROUNDS (20) times each, as root: nothing that was acknowledged is lost.
	@scripts/test-cluster

test-kernels: build ## Boots Debian's 5.10, 6.1 and 6.12 without KVM, as root, and explains nginx, Apache and planted faults in each; KERNELS="5.10" chooses.
	@scripts/deps kernels
	@scripts/test-kernels $(KERNELS)

check-directory: deps ## Has porcupine judge the directory's operations under faults of etcd for DIRECTORY_SECONDS (60), as root; needs Go.
	@scripts/check-directory

sim-cluster: ## Simulates rules over nodes with NODES (1000) nodes that are asked for a million atoms, with faults of SEEDS (10) seeds; WEIR_SEED repeats one.
	@WEIR_SIM_NODES=$(or $(NODES),1000) WEIR_SIM_SEEDS=$(or $(SEEDS),10) WEIR_SIM_PATHS=97 $(CARGO) test --release --workspace --test rules -- --nocapture simulated

test-upstreams: deps ## Sends published smuggling vectors through weir to Apache, nginx, gunicorn, Node and Go.
	@scripts/test-upstreams

test-scenarios: build ## Plays a scenario against the administration pages of Django, as Debian has them.
	@scripts/test-scenarios

test-mcp: build ## Drives weir mcp by the official SDK of Python (mcp), which pip fetches from PyPI.
	@scripts/test-mcp

test-grpc: build ## Loads gRPC servers of Go and Python, and has Go's explained, in the clear and over TLS, as root; Go and pip fetch them; ONLY=load chooses.
	@scripts/test-grpc

test-http3: ## Loads quic-go and aioquic over HTTP/3; Go and pip fetch them from their registries.
	@scripts/test-http3

bench-http3: ## What a request over HTTP/3 costs weir load and a client of quic-go, by turns against the same server: some minutes; QUICK=1 only tries it.
	@QUICK="$(QUICK)" bench/http3-load

test-streams: build ## Loads WebSockets of Python and Node and streams of Flask, alone and behind nginx and weir serve; PyPI and npm have the libraries.
	@scripts/test-streams

test-k6: deps ## Runs the examples that come with k6 by k6 and by weir k6 against one server, and compares what they count; needs Go.
	@scripts/test-k6

console: ## Builds the page of weir console into console/dist, which the program holds; needs Node and npm.
	@scripts/console

test-console: build ## Builds that page anew, compares its bytes, and uses each room in Chromium, as root; needs Node and npm.
	@scripts/test-console

test-sites: build ## Uses WordPress, DokuWiki, Django, Flask and Node behind the server in Chromium; SITES="flask chat" chooses.
	@scripts/deps test sites
	@scripts/test-sites --pictures $(TARGET)/sites $(SITES)

wasm: ## Builds weir-wasm, which runs WebAssembly components, into wasm/target, and tests it; needs Rust 1.95, and some 800 CPU seconds.
	@scripts/wasm

lake: build-deps ## Builds weir-parquet, which writes the tables of runs as Parquet, into lake/target, and tests it.
	@scripts/lake

test-lake: build lake ## Compares the answers of SQLite, DuckDB and DataFusion (both from PyPI) to the saved questions.
	@scripts/test-lake

test-lake-spark: build lake ## The same with a Spark cluster of a master and two workers; needs a Java, and pyspark from PyPI (490 MB).
	@scripts/test-lake --spark

lint: deps ## Checks the format, the lints, the documentation of the crates, the generated pages and the dependencies; a warning is an error.
	$(CARGO) fmt --all --check
	@scripts/decisions-index --check
	@scripts/figures --check
	@scripts/results --check
	@studies/horikawa/run --check
	@scripts/licences
	@scripts/msrv --dependencies
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps

msrv: build-deps ## Checks the workspace with the oldest Rust that Cargo.toml promises, which rustup installs; else says why not.
	@scripts/msrv

check: ## Checks what changed since the last commit: format, lints, and unit tests of the changed crates and of those that use them.
	@scripts/check

bench: deps build ## Measures our own figures into bench/results and bench/RESULTS.md; QUICK=1 only tries them, ONLY="server io" chooses.
	@bench/run

bench-imports: ## How fast traces of other tools are imported, and in how much memory: 1 GiB of each that a sample is repeated for (MEGABYTES=, ONLY=names).
	@$(CARGO) build --release --quiet --package weir-formats --example imports
	@for format in $(or $(ONLY),perf-data trace-dat ctf jfr perfetto chrome-json ftrace-text otlp-protobuf otlp-json lines); do \
		$${CARGO_TARGET_DIR:-target}/release/examples/imports $$format $(or $(MEGABYTES),1024) $${TMPDIR:-/tmp}/weir-imports || exit 1; \
	done

check-imports: deps build ## Compares what is explained of perf's trace and of our own recording of the same load, as root: 15 seconds.
	@scripts/check-imports

bench-cluster: deps build ## What a server pays for being a node while nothing moves, and what a packet costs the director: five minutes, as root.
	@$(CARGO) build --release --quiet --package weir-bench --bin director-packets
	@bench/cluster-idle

bench-grpc: ## What a unary call of gRPC costs weir load and ghz (from Go's module proxy), by turns against the same server; QUICK=1 only tries it.
	@QUICK="$(QUICK)" bench/grpc-load

bench-workers: build ## Compares the times of eight workers on this host with those of one generator at the same arrivals, by turns.
	@bench/workers target/release/weir

bench-watching: build ## Compares the CPU time of a request of weir serve, not watched and with one and with 50 watchers, by turns.
	@bench/watching target/release/weir

bench-websocket: ## Compares the CPU time of a message over WebSockets of weir load and k6 (from Go's module proxy), PAIRS (10) of each by turns.
	@bench/websocket-load

bench-tls-probes: deps build ## What the probes at the edge of TLS cost nginx over HTTP/2, an empty file and 64 KiB: some ten minutes, as root.
	@bench/tls-probes

bench-questions: deps build ## What reading a server's questions to others, and the traces that requests name, costs nginx as a gateway: some ten minutes, as root; QUICK=1 only tries it.
	@QUICK="$(QUICK)" bench/questions

study-arm: deps build ## Repeats the paper on ARM in Apache and PHP, under 30 minutes, as root, and writes its page; QUICK=1: three minutes, for trying.
	@$(MAKE) --no-print-directory -C native/apache
	@$(MAKE) --no-print-directory -C native/php
	@QUICK="$(QUICK)" studies/arm/run

study-causes: deps build ## Plants 113 faults behind real servers and scores what TOOLS (weir,offcputime,opentelemetry) say of the cause, and writes its page: 27 minutes, as root; QUICK=1: five faults, for trying.
	@scripts/deps causes
	@$(CARGO) build --release --quiet --package weir-testkit --bin weir-faulty
	@studies/causes/run --tool $(or $(TOOLS),$(CAUSES_TOOLS)) $(if $(QUICK),$(CAUSES_QUICK))

study-monitors: deps build ## What watching itself costs a server, with readings told or gossiped every 0.5 to 30 s: writes its page, 24 minutes, as root; QUICK=1: a minute and a half, for trying.
	@QUICK="$(QUICK)" studies/patia/monitors

study-overload: deps build ## PHP under twice the load that it can answer, behind weir and behind nginx, five rounds, and writes its page: 5 minutes; fails where something does not hold; QUICK=1: half a minute, for trying.
	@QUICK="$(QUICK)" studies/overload/run

study-patia: ## Simulates the Patia paper's placement of a site's documents again, and writes its page: a minute; fails where a real node that study-patia-node measured is not as simulated.
	@studies/patia/run

study-predict: deps build ## Predicts twenty configurations of real servers from one run of each, measures them, and writes its page: eight minutes, as root; QUICK=1: a minute, for trying.
	@QUICK="$(QUICK)" studies/predict/run

study-flood: deps build ## A flash crowd behind a narrow link, with a policy and without, three seeds, and writes its page: 13 minutes, as root; fails where something does not hold; QUICK=1: a minute, for trying.
	@QUICK="$(QUICK)" studies/patia/flood

study-horikawa: deps build ## Repeats the case study of the paper on event tracing with today's Apache, and writes its page: 18 minutes, as root; QUICK=1: three minutes, for trying.
	@QUICK="$(QUICK)" studies/horikawa/run

study-heartbeat: build-deps ## Counts false detections by heartbeats of 1 to 100 ms while all CPUs are busy, for HEARTBEAT_SECONDS (600).
	@scripts/study-heartbeat

study-flood-ticks: deps build ## The same with the policy's readings told every 0.5 to 30 s: how soon it acts, and writes its page: 13 minutes, as root; QUICK=1: a minute, for trying.
	@QUICK="$(QUICK)" studies/patia/flood ticks

study-crowd: ## Simulates a flash crowd over nodes by rules, an autoscaler and limits, and writes its page; REAL=1, as root: beside a real cluster, 12 minutes.
	@$(if $(REAL),$(MAKE) --no-print-directory deps build)
	@REAL="$(REAL)" QUICK="$(QUICK)" studies/crowd/run

study-patia-node: deps build ## A real node beside the simulated one, three runs at each of two loads, for the page of study-patia: four minutes, Apache and PHP; fails where most runs are not within 15 %.
	@studies/patia/measured

study-wasd: deps build ## Repeats the WASD server's performance paper, under 30 minutes, and writes its page; QUICK=1: two minutes, for trying.
	@QUICK="$(QUICK)" studies/wasd/run

study-wasd-scripts: build ## Repeats its tables on scripting beside CGI, CGIplus, RTE, ISAPI and PHP of weir, some 20 minutes, and writes their page; QUICK=1: two minutes, to see that each column answers.
	@scripts/deps build wasd
	@QUICK="$(QUICK)" studies/wasd/run scripts

study-truth: deps build ## Twenty real servers against themselves and five with a planted 5 %: what is said of them, in $(TARGET)/truth, about 40 minutes.
	@rm -rf $(TARGET)/truth
	@studies/truth/run $(TARGET)/truth

soak: deps build ## Explains load on real servers again and again for MINUTES (10): nothing may grow or be lost.
	@scripts/soak

soak-load: build ## Asks for REQUESTS (10000000) without a pause: the memory of the load generator stays below 50 MB.
	@scripts/soak-load

soak-arm: deps ## ARM in Apache and PHP: RELOADS (1000) under load by each model, CHILDREN (100000) of one connection each, php-fpm.
	@scripts/soak-arm

soak-serve: build ## Asks weir serve for REQUESTS (10000000) of every sort: neither its memory nor its descriptors grow.
	@scripts/soak-serve

soak-bodies: deps build ## Sends a body of BYTES (1 GiB) to an application and back over HTTP/2 and HTTP/3 at once: in bounded memory.
	@scripts/http3-client > $(TARGET)/http3-client.log 2>&1 || cat $(TARGET)/http3-client.log
	@WEIR_TEST_BODY_BYTES=$(or $(BYTES),1073741824) cargo test --release --workspace --test serving -- many_bytes --nocapture

soak-proxy: deps build ## Sends BYTES (1 GiB) each way through the proxy and holds WEBSOCKETS (8000): the server's memory stays below 20 and 120 MB.
	@$(CARGO) build --release --package weir-testkit --bins
	@scripts/soak-proxy

soak-tunnels: deps build ## RELOADS (1000) and TAKEOVERS (100) under requests over HTTP/1.1, 2 and 3 and WebSockets: none fails, none breaks.
	@scripts/http3-client > $(TARGET)/http3-client.log 2>&1 || cat $(TARGET)/http3-client.log
	@$(CARGO) build --release --package weir-testkit --bins
	@scripts/soak-tunnels

soak-moves: deps ## Moves downloads MOVES (10000) times between three nodes, with round trips of 0, 20 and 80 ms and losses of 0 and 1 %: as root, an hour.
	@WEIR_SOAK_MOVES=$(or $(MOVES),10000) $(CARGO) test --release --workspace --test cluster -- --nocapture --include-ignored soak

placement-scale: deps ## Places 1,000,000 contents on 1,000 nodes, and once more with a node more and one less; a minute, no root.
	@$(CARGO) test --release --workspace --test cluster -- --nocapture --ignored placement::a_million

soak-drain: deps ## Drains a node with DOWNLOADS (5000) slow downloads: none breaks; says how long it took. As root.
	@WEIR_SOAK_DRAIN=$(or $(DOWNLOADS),5000) $(CARGO) test --release --workspace --test cluster -- --nocapture drains

soak-upgrade: deps ## Exchanges the program of all nodes ROUNDS (10) times under load over HTTP/1.1 and 2: no request fails. As root.
	@WEIR_SOAK_UPGRADE=$(or $(ROUNDS),10) $(CARGO) test --release --workspace --test cluster -- --nocapture upgrades

soak-relays: deps ## Moves RUNS (300) responses among four nodes while a third of the messages between these is lost: each comes whole. A minute, no root.
	@WEIR_RELAY_RUNS=$(or $(RUNS),300) $(CARGO) test --release --workspace --test cluster -- --nocapture --ignored responses_move_about

check-parents: deps ## For whose requests gunicorn, php-fpm, Node, asyncio, Go and Java ask another server, 1, 8 and 64 in flight: what weir says against what that server knows. As root, some three minutes.
	@$(CARGO) test --release --workspace --test planted -- --nocapture --ignored parents

measure-moves: deps ## Moves sessions of clients that read 25 MB/s MOVES (200) times each: how long they stand still, and what their clients see. As root, some six minutes; on an idle machine.
	@WEIR_MEASURE_MOVES=$(or $(MOVES),200) $(CARGO) test --release --workspace --test cluster -- --nocapture --ignored gaps

soak-kills: deps ## Takes the power from a node KILLS (200) times under 50 downloads each, in the clear and over TLS: as root, an hour.
	@WEIR_SOAK_KILLS=$(or $(KILLS),200) $(CARGO) test --release --workspace --test cluster -- --nocapture --ignored kills

soak-scripts: deps ## Asks for COUNT (100000) requests of scripts by CGI, CGIplus and RTE: no memory, descriptor, process or file is left.
	@$(CARGO) build --release --package weir-scripts --example supervise
	@scripts/soak-scripts

fuzz: deps ## Fuzzes each parser for FUZZ_SECONDS (600), FUZZ_JOBS (CPUs) at a time; FUZZ_ONLY="url ranges"; adds to fuzz/HOURS.md.
	@scripts/fuzz

# Built only where it is missing: the installing user, often root, need not have Rust.
$(WEIR) $(ARM) &:
	$(CARGO) build --release --package weir-cli --package weir-arm-c --package weir-arm2-c

install: $(WEIR) $(ARM) ## Installs below $(DESTDIR)$(PREFIX): program, ARM libraries, man pages, completions, licences.
	@scripts/install

packages: build ## Makes packages for Debian of what was built, into $(TARGET)/packages.
	@scripts/deps packages
	@scripts/packages

archive: build ## Makes the archive that packaging/install.sh installs, with its checksums, into $(TARGET)/archive.
	@scripts/archive

test-packages: packages archive ## Installs, upgrades and removes the packages on clean systems and under systemd, runs the image, as root: some five minutes; needs Debian's mirror.
	@scripts/test-packages
	@scripts/image --test

demo-package: packages ## Installs the package on a clean system and runs its demo there, as root: it has to take less than ten seconds.
	@scripts/test-packages --only demo

packages-arm64: build-deps ## Builds the packages weir, weir-serve and libarm4 for arm64, and tries the program under emulation; rustup and Debian's mirror give what is missing.
	@scripts/packages-arm64

musl: build-deps ## Builds one static program for any Linux on x86-64, and tries it in an empty root; rustup and Debian's mirror give what is missing.
	@scripts/musl

image: build ## Makes an OCI image without a daemon, into $(TARGET)/image.
	@scripts/image

sbom: ## Writes which crates the programs are made of, as CycloneDX, to $(TARGET)/sbom.cdx.json.
	@scripts/sbom --to $(TARGET)/sbom.cdx.json

site: ## Makes a site of the documents, into $(TARGET)/site; it needs python3-markdown-it.
	@scripts/site

reproducible: build-deps ## Builds the last commit twice, in two folders, and compares byte for byte; as long as two full builds; PROFILE=dev, PARTS="weir-arm-c" and MINUTES bound it.
	@scripts/reproducible

install-apache: ## Builds the ARM module for Apache and installs it where APXS= says (else the one on the search path).
	@$(MAKE) --no-print-directory -C native/apache install

install-php: ## Builds the extension arm for PHP and installs it where PHP_CONFIG= says (else for PHP 8.2 of Debian).
	@$(MAKE) --no-print-directory -C native/php install

clean: ## Removes what was built and the runs of the demos.
	$(CARGO) clean
	rm -rf runs
