# Everything a developer does, by one word. `make help` lists it.
SHELL := /bin/bash
PY := PYTHONPATH=tests/e2e .venv/bin/python
SECONDS ?= 600
ROUNDS ?= 100
SCRIPTS ?= 20000
CRASHES_A_CELL ?= 16
KIND ?= thread
COMMANDS ?= 100000
BATCHES ?= 200
CRASHES ?= 100000
# Lints and documentation are built by this cargo, with this profile; continuous integration names others.
CARGO ?= cargo
PROFILE ?=
export PATH := $(PATH):$(HOME)/.cargo/bin

# Every target: none of them makes a file of its name.
.PHONY: $(shell grep -oE '^[a-z-]+:' $(firstword $(MAKEFILE_LIST)) | tr -d :)

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

run: ## build and start the server on config/sexton.conf, data below ./data
	@scripts/setup.sh run
	cargo build --locked --release --bin sexton-server
	@mkdir -p data
	exec target/release/sexton-server config/sexton.conf --dir data

build:
	cargo build --locked --release --bin sexton-server --bin sexton-check

test: ## all that continuous integration runs
	.ci/run

setup:
	@scripts/setup.sh test

check: ## formatting and lints, warnings are errors
	cargo fmt --all --check
	$(CARGO) clippy $(PROFILE) --locked --workspace --all-targets -- -D warnings
	@if [ -x .venv/bin/ruff ]; then .venv/bin/ruff check --quiet tests/e2e scripts; else echo "no ruff: Python is not checked (make setup)"; fi
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error --locked check licenses bans sources; else echo "no cargo-deny: licences are not checked (make deny)"; fi

doc: ## documentation of the crates, into target/doc; warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(PROFILE) --locked --workspace --no-deps --quiet

deny: ## advisories, licences, sources and duplicates of all crates (installs cargo-deny where it is missing: some minutes)
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny --locked check --hide-inclusion-graph

# Unit tests that run thousands of histories, take four seconds, or wait for real clocks: continuous integration runs them, `make quick` does not.
LONG := $(addprefix --skip=, crash histories check::tests check::pool store::tests::damage store::tests::deadline store::tests::due \
	store::tests::places store::tests::policy store::tests::snapshots store::tests::threads aof::tests::threads \
	a_change_of_value_sizes a_hundred_thousand_elements malformed_frames groups_do_what_maps_do a_group_whose_entries \
	a_list_does_what_a_deque damaged_pages sorted_sets_in_pages_answer streams_in_pages_answer attacks_on_the_sandbox \
	too_large_a_table)

.PHONY: quick
quick: check ## formatting, lints, and the unit tests without the long histories: before a commit
	cargo test --locked --quiet --workspace --lib --test repository -- $(LONG)

differential: setup build ## random commands against redis-server 7.0, replies byte by byte (COMMANDS=100000)
	$(PY) -m differential --commands $(COMMANDS)

differential-cold: setup build ## the same with a restart before each pipeline, so that every key comes from a device (BATCHES=200)
	$(PY) -m differential.cold --batches $(BATCHES)

blocking: setup build ## clients that wait for lists, sorted sets and streams: order, transactions, timeouts, many at once, kill -9
	$(PY) -m blocking

hangs: setup build ## what once waited for ever: pipelines of cold keys, MULTI beside INFO, slow helpers, clients that left
	$(PY) -m nothing_hangs

stopping: setup build ## SIGTERM and SHUTDOWN beside loads, endless scripts, saves, waiting clients (ROUNDS=100)
	$(PY) -m stopping --rounds $(ROUNDS)

scripts: setup build ## generated scripts against redis-server, scripts without end, kill -9 among scripts (SCRIPTS=20000 ROUNDS=100)
	$(PY) -m scripts --scripts $(SCRIPTS) --rounds $(ROUNDS)

crash: setup build ## kill -9 under load, 100 rounds for each policy and with wbl, then the matrix (ROUNDS=100)
	$(PY) -m crash_loop --policy always --rounds $(ROUNDS)
	$(PY) -m crash_loop --policy everysec --rounds $(ROUNDS)
	$(PY) -m crash_loop --policy wbl --rounds $(ROUNDS)
	$(MAKE) --no-print-directory crash-matrix

crash-matrix: setup build ## each policy, each way to die, in the middle of each thing a store does (CRASHES_A_CELL=16)
	SEXTON_CRASH_MATRIX=$(CRASHES_A_CELL) cargo test --locked --release -p sexton-engine crash_matrix -- --nocapture
	$(PY) -m crash_matrix --crashes $(CRASHES_A_CELL)

matrix: setup build ## every command in every state it can meet, beside redis-server 7.0 (ARGS='--cells 5000 --seed 1', '--cell ID')
	$(PY) -m matrix $(ARGS)

compat: setup build ## Redis' own tests against the server, beside what is expected of each (ARGS=--quick, --accept, unit/multi)
	$(PY) -m compat $(ARGS)

functions: setup build ## generated function libraries against redis-server, starts in each mode, kill -9 among changes (ROUNDS=100)
	$(PY) -m functions --rounds $(ROUNDS)

script-clients: setup build ## libraries of others that live on scripts: redis-py's Lock, rate-limiter-flexible, redlock, queues of jobs
	$(PY) -m script_clients

job-queues: setup build ## bullmq, bee-queue, rq and celery, redlock in two languages and a limiter under kill -9 (ROUNDS=100)
	$(PY) -m job_queues --rounds $(ROUNDS)

parity: setup build ## scripts of settings and commands against redis-server 7.0
	$(PY) -m parity

metrics: setup build ## metrics-port: figures, page, readiness, bounds
	$(PY) -m metrics

tls: setup build ## certificates, clients, reload, 10,000 handshakes that must fail
	$(PY) -m tls --handshakes 10000

operate: setup build ## configurations of Redis, log, loading, ports, crashes: what an operator sees
	$(PY) -m operate

acl: setup build ## users and their rights against redis-server 7.0 (ARGS=--rules 2000)
	$(PY) -m acl $(ARGS)

pubsub: setup build ## channels, patterns and key-space events against redis-server 7.0
	$(PY) -m pubsub

tracking: setup build ## caches of clients against redis-server 7.0, and ten of them beside writers: nothing stale (ARGS=--quick)
	$(PY) -m tracking $(ARGS)

migrate: setup build ## MIGRATE against redis-server 7.0, and values of all types to both kinds of server
	$(PY) -m migrate

smoke: setup build ## every command through redis-py and ioredis
	$(PY) -m smoke_python
	$(PY) -m smoke_node

tools: setup build ## redis-cli's modes and redis-benchmark with -P, -c and -3
	$(PY) -m redis_tools

disk-bound: setup build ## disk-max-bytes: refusals, room that comes back, restarts above the bound
	$(PY) -m disk_bound

zipfian: setup build ## hits of each eviction policy beside redis-server's; ten times maxmemory in a control group (ARGS='--seconds 300')
	$(PY) -m zipfian $(ARGS)

soak: setup build ## every command, clients that come and go, saves, flushes, for 20 minutes: nothing may grow (ARGS='--seconds 120')
	$(PY) -m soak $(ARGS)

growth: setup build ## 1,000,000 EXPIREs, WATCHes and locks, 100,000 connections, 50,000 FLUSHALLs: memory comes back (ARGS=--quick)
	$(PY) -m growth $(ARGS)

larger-than-memory: setup build ## 2,000,000 keys of 1 KB under maxmemory 256mb
	$(PY) -m larger_than_memory

long-strings: setup build ## random edits of long strings beside redis-server, and others beside strings of 100 MB (a few minutes)
	$(PY) -m long_strings --edits 6000 --mb 100 $(ARGS)

large-collections: setup build ## a list, set, hash and sorted set of 10,000,000 elements under maxmemory 256mb (an hour; ARGS='--elements 600000 --maxmemory-mb 32')
	$(PY) -m large_collections $(ARGS)

memory-bound: setup build ## resident memory under maxmemory: small keys, clients, pipelines, large requests (ARGS='--only lcs')
	$(PY) -m memory_bound $(ARGS)

scan: setup build ## SCAN of 1,000,000 keys under flush, compaction and eviction
	$(PY) -m scan_guarantee

hostile: setup build ## protocol attacks, 20,000 connections, slow writers
	$(PY) -m hostile

.PHONY: book doc pages formats deny deb deb-test dist backup drill
book: ## docs/ as a book, into target/book, with its links checked (installs mdBook where it is missing: some minutes)
	@command -v mdbook >/dev/null || cargo install --locked mdbook
	mdbook build
	python3 scripts/book.py check target/book

pages: ## writes the pages that are made from tables: commands and directives
	SEXTON_WRITE_PAGES=1 cargo test --locked --quiet -p sexton-tests --test repository pages

formats: setup build ## data directories of earlier versions are opened, those of a newer one refused
	$(PY) -m formats

deb: ## the Debian package, into target/debian; lintian where it is installed
	scripts/deb.sh

deb-test: deb ## installs the package here, as root: start, kill -9, start, purge
	scripts/test_deb.sh

dist: ## tarballs for this machine and aarch64 with SHA-256 and SBOM, into target/dist
	scripts/dist.sh $(ARGS)

backup: setup build ## BACKUP under load: what START, SEAL and a kill leave, opened and compared
	$(PY) -m backup

drill: setup build ## the drill of docs/backup.md as it stands there: FLUSHALL undone to the second
	scripts/restore_drill.sh

copies: setup build ## redis-cli --rdb, SYNC, and redis-server and valkey-server with REPLICAOF
	$(PY) -m full_copy

aof: setup build ## redis-server and valkey-server on what BGREWRITEAOF leaves; back to a second
	$(PY) -m aof_exchange
	$(PY) -m point_in_time

devices: setup build ## log and tables on named devices, carried over, emulated
	$(PY) -m devices

snapshots: setup build ## sessions that read one instant beside a copy of it, while others write (ARGS='--reads 10000')
	$(PY) -m snapshot_session $(ARGS)

deadline: setup build ## deleted keys and values are in no file after delete-persist-seconds
	$(PY) -m delete_deadline

faults: setup build ## failing writes, syncs and renames, injected by strace; damaged and missing files, a full disk, a device that hangs
	$(PY) -m faults
	$(PY) -m outages

rdb: setup build ## RDB files and data directories exchanged with redis-server 6.2, 7.0 and valkey-server 9.1
	cargo build --locked --release -p sexton-tests --bin rdb_tool
	$(PY) -m rdb
	$(PY) -m takeover

hash-fields: setup build ## fields of hashes that expire, beside valkey-server 9.1
	$(PY) -m hash_fields

mixed: setup build ## 90/10 GET/SET under appendfsync always beside GETs alone
	cargo build --locked --release -p sexton-tests --bin mixed_load
	$(PY) -m mixed_latency

bench-redis: setup build ## interleaved comparison with redis-server 7.0 and valkey-server 9.1 (about 2 h; ARGS=--quick)
	$(PY) scripts/bench_redis.py $(ARGS)

bench-bgsave: setup build ## BGSAVE of 5,000,000 keys beside redis-server's; of a full copy (ARGS='--keys 500000', ARGS=--copy)
	cargo build --locked --release -p sexton-tests --bin mixed_load
	$(PY) scripts/bench_bgsave.py $(ARGS)

bench-restart: setup build ## the start after kill -9 with an append-only file of 5,000,000 keys, beside redis-server's (ARGS='--keys 500000')
	$(PY) scripts/bench_restart.py $(ARGS)

bench-rocksdb: setup ## engine beside RocksDB's db_bench, the paper's run, the tombstone trap (hours; ARGS=--quick)
	$(PY) scripts/bench_rocksdb.py $(ARGS)

bench-memory: setup build ## bytes per key beside redis-server and valkey-server
	$(PY) scripts/bench_memory.py $(ARGS)

bench-clients: setup build ## what users with rules, TLS and other clients' caches, watches and waits cost GET and SET (20 min; ARGS='--rounds 3')
	$(PY) scripts/bench_clients.py $(ARGS)

pictures: setup ## the pictures of the README: expiry, saves, cold keys and deletes beside other servers (5 min; ARGS='--only save', --quick)
	cargo build --locked --release --bin sexton-server --bin flsm-bench
	$(PY) scripts/pictures.py $(ARGS)

bench-groups: setup build ## requests of consumer groups beside redis-server, with 0, 10,000 and 100,000 pending entries
	$(PY) scripts/bench_groups.py $(ARGS)

expiry: setup build ## 1,000,000 keys due at one instant, 100,000 a second, and cold ones, beside redis-server and valkey-server (ARGS=--quick)
	$(PY) scripts/bench_expiry.py $(ARGS)

large-values: setup build ## one client on values of 100 MB and others beside it, beside redis-server and valkey-server (5 min)
	$(PY) scripts/bench_large_values.py $(ARGS)

large-sets: setup build ## small sets beside large ones, searches of positions, and others beside large ones, beside both peers (6 min)
	$(PY) scripts/bench_large_sets.py $(ARGS)

studies: study-tools ## the four studies, then the report: at most 2 h 30 min, goes on after a stop (ARGS=--plan, --full)
	$(PY) scripts/study_all.py $(ARGS)

study-tools:
	@scripts/setup.sh studies || scripts/setup.sh test
	cargo build --locked --release --bin sexton-server --bin flsm-bench --bin command_load

study-devices: study-tools ## what durability costs on each device, beside redis-server and valkey-server (80 min; docs/studies.md)
	$(PY) scripts/study_devices.py $(ARGS)

study-flsm: study-tools ## deletes: cemetery, tombstones, RocksDB; bulk expiry (18 min)
	$(PY) scripts/study_flsm.py $(ARGS)

study-wbl: study-tools ## YCSB: log, write-behind memtables, RocksDB (35 min)
	$(PY) scripts/study_wbl.py $(ARGS)

study-mvcc: study-tools ## old versions on disk, flash and the own device; held snapshots (15 min)
	$(PY) scripts/study_mvcc.py $(ARGS)

study-quick: study-tools ## all studies, small, in three minutes: to see that they work
	$(PY) scripts/study_all.py --quick

study-report: setup ## the report of what the studies have measured, into docs/reports
	$(PY) scripts/study_report.py $(ARGS)

bench-cemetery: ## 50,000,000 keys deleted under cemetery-max-memory; Gets beside 0, 1 and 10 million graves
	cargo build --locked --release --bin flsm-bench
	target/release/flsm-bench --benchmarks=massdelete --num=50000000 --key_size=16 --value_size=20 $(ARGS)
	target/release/flsm-bench --benchmarks=getgraves --cemetery_max_memory=0 $(ARGS)
	target/release/flsm-bench --benchmarks=getgraves $(ARGS)

profile: setup build ## page faults and hottest symbols of a SET-only run
	$(PY) scripts/profile_sets.py $(ARGS)

fuzz: ## request scanner, configuration parser, RDB and log readers, PMEM scan, SECONDS=600 each
	scripts/fuzz.sh $(SECONDS)

fuzz-quick: ## the fuzz targets, 20 s each
	scripts/fuzz.sh 20

sanitize: ## engine and persistence tests under a sanitizer, about 15 minutes (KIND=thread|address)
	scripts/sanitize.sh $(KIND)

loom: ## cemetery, publication and pins in every interleaving of their threads
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --locked -p sexton-engine --lib loom_

model: ## the engine's rules under random histories: all on, then each off (ARGS='--seed N --rule NAME', '--snapshots long')
	cargo build --locked --release -p sexton-tests --bin model
	target/release/model $(ARGS)

pmem-crashes: ## simulated power failures of a pool of persistent memory, in a minute (CRASHES=100000)
	SEXTON_PMEM_CRASHES=$(CRASHES) cargo test --locked --release -p sexton-persistence --lib pmem::tests::crashes -- --nocapture
