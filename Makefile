# Two commands on a fresh machine: `make run` and `make test`. Both install what is missing first.
# `make help` lists the rest.

export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
.DEFAULT_GOAL := help
# What serving needs, and what tests, checks and benches need as well.
RUNTIME := node_modules/.runtime
PACKAGES := node_modules/.installed
TAP := .tap/.built

.PHONY: help
help:
	@echo 'make run           install what is missing, start everything, print address, key and a curl line'
	@echo 'make install       what run needs, and nothing started'
	@echo 'make test          all tests; ends with "N passed, N failed"'
	@echo 'make check         format, lint, types, import arrows, dead files'
	@echo 'make format        write the format that check asks for'
	@echo 'make schema        write sql/schema.txt from the migrations and definitions in sql/'
	@echo 'make contract      the public contract, over HTTP'
	@echo 'make sandbox-test  hostile and honest programs in boxes; sandbox-test-v2 in machines with cgroup v2'
	@echo 'make sandbox-test-switches   sandbox-test with each speed-up left out'
	@echo 'make bench         measurements, each with its question and its ratio'
	@echo 'make bench-compare BASE=HEAD~1   did this change cost speed? (ROUNDS=2 ONLY=http,ledger FLOOR=0.95)'
	@echo 'make bench-compare A=dir B=dir   what changed between two runs of make bench'
	@echo 'make chaos         kill things at random and see that nothing is lost'
	@echo 'make config        every variable with default, unit and reason'
	@echo 'make doctor        what is well here and what is not'

# exec: make hands signals on to the shell's one process, which stops everything in order.
.PHONY: run
run: $(RUNTIME) machine
	@exec node src/cli/main.ts serve

.PHONY: test
test: $(PACKAGES) $(TAP) machine
	@exec node test/support/run.ts

.PHONY: check
check: $(PACKAGES) $(TAP)
	@biome ci --colors=off --error-on-warnings .
	@tsc -p .
	@tap --reporter=terse test/arrows.test.ts

.PHONY: format
format: $(PACKAGES)
	@biome check --write .

# Migrates a database of its own, on the embedded PostgreSQL.
.PHONY: schema
schema: $(PACKAGES)
	@exec node test/sql/schema_dump.ts

.PHONY: config doctor
config doctor: $(RUNTIME)
	@exec node src/cli/main.ts $@

# The lock file decides, and stays as it is; a tree that is in use keeps what it has. The link to the
# packaged Node is made anew: older versions of npm remove it together with the other processor's package.
$(PACKAGES): package.json package-lock.json
	@echo 'packages: installing with npm (once, about 550 MB) ...' >&2
	@npm install --no-save
	@$(link-node)
	@touch $(RUNTIME) $@

# Where everything is installed, leaving some out would remove it.
$(RUNTIME): package.json package-lock.json
	@if [ -e $(PACKAGES) ]; then $(MAKE) --no-print-directory $(PACKAGES); else \
	  echo 'packages: installing with npm (once, about 300 MB) ...' >&2; \
	  npm install --no-save --omit=dev; \
	fi
	@$(link-node)
	@touch $@

define link-node
cd node_modules/.bin && for node in ../node-linux-*/bin/node; do \
  if "$$node" --version >/dev/null 2>&1; then ln -sf "$$node" node; fi; \
done; \
[ "$$(node -p 'Number.parseInt(process.versions.node) >= 24')" = true ] || { \
  echo "Node $$(node --version) is too old, and npm has no newer one for this machine: install Node 24" >&2; \
  exit 1; }
endef

# tap builds its runner for the plugins that .taprc asks for.
$(TAP): .taprc $(PACKAGES)
	@echo 'tests: building the runner ...' >&2
	@tap build >/dev/null 2>&1
	@touch $@

# Everything that serving needs, and nothing started.
.PHONY: install
install: $(RUNTIME) machine

# Compilers, interpreters and the launcher that builds the boxes.
.PHONY: machine
machine:
	@src/local/toolchains.sh
	@if command -v cc >/dev/null; then \
	  $(MAKE) --no-print-directory -s -C src/sandbox || \
	  echo 'the launcher could not be built (see above): submissions wait until a worker can run them' >&2; \
	fi

.PHONY: contract sandbox-test sandbox-test-switches sandbox-test-v2 bench bench-compare chaos
contract: $(PACKAGES) $(TAP) machine
	@node test/support/run.ts test/http/contract.test.ts; code=$$?; \
	  node test/http/support/contract_table.ts; exit $$code

sandbox-test: $(PACKAGES) $(TAP) machine
	@exec node test/sandbox/main.ts

# The same with every speed-up, and then with each of them left out.
sandbox-test-switches: $(PACKAGES) $(TAP) machine
	@for left_out in '' precompiled_headers java_compiler compile_cache python_zygote; do \
	  echo "without: $${left_out:-none}"; \
	  node test/sandbox/main.ts --quiet $${left_out:+--without $$left_out} || exit 1; \
	done

# The same in throw-away machines whose kernel has cgroup v2 alone: as root, and as an ordinary user
# whom systemd delegated a group. Emulated, so some minutes.
.PHONY: sandbox-test-v2
sandbox-test-v2: $(PACKAGES) machine
	@node test/sandbox/prepare.ts
	@for as in root user; do \
	  test/sandbox/guest/run --as $$as --timeout 3600 --times -- $(CURDIR)/node_modules/.bin/node --liftoff-only test/sandbox/main.ts || exit 1; \
	done

# Each run writes its figures to its own folder; build/bench/latest is the last one. Node starts as in the Procfile.
bench: $(PACKAGES) machine
	@dir=build/bench/$$(date +%Y-%m-%d.%H%M%S); mkdir -p $$dir && ln -sfn $${dir##*/} build/bench/latest; \
	for file in bench/*.bench.ts; do echo "# $$file"; BENCH_DIR=$$dir node --max-semi-space-size=4 $$file || exit 1; done; \
	echo "kept in $$dir"

# Did this change cost speed? Runs the benches of BASE and of this tree in turn; exits 1 when a row is below FLOOR.
# With A and B it compares two earlier runs of make bench instead.
bench-compare: export BASE := $(BASE)
bench-compare: export ROUNDS := $(ROUNDS)
bench-compare: export ONLY := $(ONLY)
bench-compare: export FLOOR := $(FLOOR)
bench-compare: $(PACKAGES) machine
	@if [ -n '$(A)$(B)' ]; then exec node bench/support/compare.ts '$(A)' '$(B)'; fi; \
	  exec node bench/support/compare_revisions.ts

# SEED=7 SUBMISSIONS=2000 SEEDS=20, each optional.
chaos: $(PACKAGES) machine
	@exec node test/simulation/chaos.ts
