# make help lists the targets: each has its line behind ##.
GO ?= go
# Everything is compiled without C, as the program that is shipped, and so compiled once for the program, the checks and the tests.
# Only the race detector needs C.
export CGO_ENABLED := 0
# The race detector, where it builds: it needs a C compiler. DETECTOR=-race insists on it. It is looked for once, where it is used.
DETECTOR = $(eval DETECTOR := $$(shell CGO_ENABLED=1 $(GO) build -race runtime/cgo >/dev/null 2>&1 && echo -race))$(DETECTOR)
# The longest first. tests/service runs the program with the race detector; cmd/probity is left to make race.
RACE := ./tests/service ./prober/... ./coordinator/... ./tests/fleet ./tests/node ./store/... ./internal/... ./api/httpd ./bench/sim/... ./engine/dns ./engine/smtp
FUZZTIME ?= 500x
ROWS ?= 20000
CUT ?= 3m
EACH ?= 1m
SIGKILLS ?= 200
KILLED_ROWS ?= 50000
FAIR ?= 5000000
RESUMED ?= 5000000
MAKESPAN ?= 1000000
PAGES ?= 5000000
MTA_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/probity-mta
SCENARIOS ?=
PEERS ?=

PAGE := api/web/dist/.built

.DEFAULT_GOAL := build
.PHONY: help demo build check recording test test-web test-race test-calm test-rest test-fuzz race nightly bench bench-peers \
	fleet kills serve-kills resumable fair torture makespan versions tenants history why rowcost hostile mta receivers published generators facades openapi release release-test packaged bare rehearse fuzz web \
	charts deploycheck house generate licences vulncheck clean root pictures vitals

# The parts of make test, in the order in which they begin.
PARTS := test-web test-race test-calm test-rest test-fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(PAGE) ## the program, with the dashboard where Node is there
	$(GO) build -o bin/probity ./cmd/probity

$(PAGE): api/openapi.yaml $(addprefix api/web/,build.sh node.sh docs.html index.html package-lock.json tsconfig.json vite.config.ts) $(shell find api/web/src -type f ! -name schema.d.ts)
	sh api/web/build.sh

web: ## the dashboard anew; needs Node; make build does it when its sources changed
	sh api/web/build.sh

test-web: build ## a part of make test: the dashboard's tests, in a browser
	sh api/web/test.sh "$(CURDIR)/bin/probity"

# Without the dashboard, which takes longer to build than the rest.
demo: ## the main job: a simulated mail internet, a sample list, its verdicts
	@echo "Building the program; the first time this takes a minute or two. Each package is named, and some seconds of linking end it."
	$(GO) build -v -o bin/probity ./cmd/probity
	./bin/probity demo --rows $(ROWS) --exit --listen 127.0.0.1:0

root:
	@[ "$$(id -u)" = 0 ] || { echo "make $(MAKECMDGOALS): network namespaces are made here, which needs root" >&2; exit 1; }

fleet: root ## kills and cuts (CUT) of processes in network namespaces; as root; PROBITY_FLEET_ROWS=200000: a longer list
	PROBITY_FLEET_CUT=$(CUT) $(GO) test -v -count=1 -timeout 90m -run '^(TestFleetSurvives|TestFleetCutsOneByOne)$$' ./tests/process

kills: root ## SIGKILL of each prober each minute (EACH) of an hour, in network namespaces; as root
	PROBITY_KILLS_EACH=$(EACH) $(GO) test -v -count=1 -timeout 90m -run '^TestKilledProbersKeepTheHour$$' ./tests/process

serve-kills: ## SIGKILLS SIGKILLs of one server, at random moments, while it has a job of KILLED_ROWS rows
	PROBITY_SERVE_KILLS=$(SIGKILLS) PROBITY_SERVE_KILLS_ROWS=$(KILLED_ROWS) $(GO) test -v -count=1 -timeout 1h -run '^TestServeIsKilledAndItsJobIsExact$$' ./tests/service

resumable: ## a resumable upload of RESUMED rows whose connection is cut ten times: exact, and the server's memory flat
	PROBITY_RESUMABLE_ROWS=$(RESUMED) $(GO) test -v -count=1 -timeout 1h -run '^TestResumedUploadIsExact$$' ./tests/service

fair: ## single calls and small lists while one of FAIR rows is under way, in virtual time
	PROBITY_FAIR_ROWS=$(FAIR) $(GO) test -v -count=1 -timeout 1h -run '^TestFleetIsFair$$' ./tests/fleet

# Two parts at a time: the dashboard's tests wait for a browser, and the race detector's part, the longest, has one processor a
# package. All are run, whatever became of the others. The output names every test: one binary ended with FAIL and named none. make
# check has vetted the packages.
test: ## the whole suite; without the race detector where there is no C compiler, and its last line says so
	@MAKE="$(MAKE) DETECTOR=$(DETECTOR)" sh tools/parts.sh build $(PARTS)
	@echo "make test: all passed, $(if $(DETECTOR),with the race detector,WITHOUT THE RACE DETECTOR: it does not build here. Install a C compiler (Debian: gcc and libc6-dev), or see what go build -race runtime/cgo says)"

# The program embeds the page: it is there, with or without the dashboard, before a package is compiled for its tests.
test-race test-calm test-rest test-fuzz: $(PAGE)

# With one processor a package: a bubble in virtual time fires its timers from any of its goroutines, two at once where there are two
# processors, with one state of the race detector for both, which then dies of it (golang/go#78156). The detector looks for what is not
# ordered, not for what happens at once: it sees fewer interleavings so, and still tells the races in them.
# What may still race when a test has ended has no second to do so (atexit_sleep_ms): programs that tests start would wait it each time.
test-race: ## a part of make test: what the race detector watches
	CGO_ENABLED=$(if $(DETECTOR),1,0) GORACE=atexit_sleep_ms=0 PROBITY_RACE=day $(GO) test -v -vet=off $(DETECTOR) -cpu 1 -timeout 40m $(RACE)

test-calm: ## a part of make test: what runs without the race detector (internal/detector says why)
	$(GO) test -v -vet=off -timeout 40m $$(sh tools/spared.sh Spare SpareByDay)

# The tests of tests/process are all calm.
test-rest: ## a part of make test: all other packages
	others="$$($(GO) list $(RACE) ./tests/process)" && packages="$$($(GO) list ./...)" && $(GO) test -v -vet=off -timeout 40m $$(echo "$$packages" | grep -vxF "$$others")

# What make test does not give the race detector the time for, and a job five times as long as there.
race: ## what make test runs without the race detector because it takes long, with it
	CGO_ENABLED=1 PROBITY_LONG_JOB_ROWS=300000 $(GO) test -count=1 -v -race -cpu 1 -timeout 1h -run '^TestLongJobDoesNotDelayAShortOne$$' ./coordinator
	CGO_ENABLED=1 PROBITY_RACE=night $(GO) test -count=1 -v -race -cpu 1 -timeout 1h $$(sh tools/spared.sh SpareByDay)
	CGO_ENABLED=1 $(GO) test -count=1 -v -race -cpu 1 -timeout 1h ./cmd/probity

# Goes on after a target that failed, and fails at the end.
nightly: ## every long target and make test, one after another, with a table at the end; as root
	@MAKE="$(MAKE)" sh tools/nightly.sh test race fuzz deploycheck versions makespan tenants hostile fair history pages why rowcost bench torture serve-kills resumable rehearse mta receivers published generators facades openapi vitals release-test packaged bare fleet kills

vitals: build ## how fast a job's page is there on a slow line and a slow machine; needs a browser
	node api/web/e2e/vitals.mjs bin/probity

pictures: build ## the pictures of the dashboard in docs/img anew; needs a browser
	node api/web/e2e/pictures.mjs bin/probity docs/img

versions: root ## an older version, built from the history, with this one in a cluster of processes; as root
	PROBITY_VERSIONS=1 $(GO) test -v -count=1 -timeout 30m -run '^TestVersions' ./tests/process

# In virtual time: a million rows take days of that and minutes of ours.
makespan: ## the time that a list of MAKESPAN rows takes with the shipped budgets, after the least that it can
	PROBITY_MAKESPAN_ROWS=$(MAKESPAN) $(GO) test -count=1 -v -timeout 2h -run '^TestMakespan$$' ./tests/node

# A start, a retention pass and an erasure with a million records of expired jobs, 8,000 kept jobs of 200,000 rows and 100,000 accounts.
history: ## start, retention and erasure with a million expired jobs, 8,000 kept ones and 100,000 accounts
	PROBITY_HISTORY_JOBS=1000000 $(GO) test -count=1 -v -timeout 1h -run '^TestHistoryDelaysNothing$$' ./coordinator

pages: ## how fast the page of a job of PAGES rows is answered: at most 100 ms a question
	PROBITY_PAGES_ROWS=$(PAGES) $(GO) test -count=1 -v -timeout 30m -run '^TestPagesOfALongJobAnswerAtOnce$$' ./api

why: ## whether the times that are told of slow receivers come true, over 16 runs in virtual time
	PROBITY_WHY_RUNS=16 $(GO) test -count=1 -v -run '^TestWhyTellsTheTruth$$' ./tests/node

# The nodes are another process and answer at once, so that the coordinator is all that is measured.
rowcost: ## a coordinator's CPU for a row with 1,000 probers, compared with 3
	PROBITY_ROW_COST=1 $(GO) test -count=1 -v -timeout 30m -run '^TestRowCostsTheSameInALargeFleet$$' ./tests/fleet

# In virtual time too: 14 days of it for one source, and five minutes of a processor.
tenants: ## how a list of 20,000 domains behind two gateways scales with sources, in virtual time
	PROBITY_TENANTS_ROWS=20000 $(GO) test -count=1 -v -timeout 2h -run '^TestTenantsScale$$' ./tests/node

# In virtual time as well. It prints what became of each receiver's mailboxes, and the scores against the truth.
hostile: ## verdicts on a hundred domains whose replies mislead, in lists and single calls, in virtual time
	PROBITY_HOSTILE=1 $(GO) test -count=1 -v -timeout 1h -run '^TestHostileReceivers$$' ./tests/hostile

check: ## format, vet, linters, import rules, sizes and names, generated code
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	GO="$(GO)" sh tools/lint.sh
	$(GO) test -count=1 ./tests/house
	sh tools/wire.sh check
	$(GO) mod tidy -diff

# Packages with their lines, antique words and imports, and types with many methods; fails where one is over its limit.
house: ## packages and types with their sizes; fails over their limits
	$(GO) test -count=1 -v -run TestHouse ./tests/house

# The lists need Node; the description of the API is read from api/openapi.yaml.
generate: ## lists, protocol and API description anew; the lists need Node
	cd tools/lists && npm ci --silent && node generate.mjs
	sh tools/wire.sh
	$(GO) test ./api -run Description -rewrite

# Every fuzz target of the project, one after another. Compiling counters of branches into all packages takes longer than 500 inputs of
# each target, and helps only longer runs: make test goes without, make nightly and make fuzz FUZZTIME=10m have them.
test-fuzz: ## a part of make test: each fuzz target for 500 inputs
	sh tools/fuzz.sh 500x unguided

fuzz: ## each fuzz target for FUZZTIME, with coverage
	sh tools/fuzz.sh $(FUZZTIME)

# The page is written beside the binary.
bench: build ## every scenario of probity bench, or SCENARIOS="bulk single"
	./bin/probity bench $(SCENARIOS) --html bin/bench.html

# A module of its own, so that what Probity is compared with stays out of go.mod. Linux, with user namespaces.
bench-peers: build ## Probity next to other libraries
	$(GO) -C bench/peers build -o ../../bin/peers .
	./bin/peers --probity bin/probity $(PEERS)

# Faults of every kind, drawn from SEED, for about TIME: processes, disks, files of jobs, names, mail servers, cables, clocks.
SEED ?= 1
TIME ?= 15m
torture: ## faults from a seed against processes of every part: make torture SEED=7 TIME=15m
	PROBITY_TORTURE_SEED=$(SEED) PROBITY_TORTURE_TIME=$(TIME) $(GO) test -count=1 -v -timeout 3h -run '^TestTorture' ./tests/service

published: ## the module under another name, fetched and installed from a module proxy of files
	PROBITY_PUBLISHED=1 $(GO) test -count=1 -v -timeout 30m ./tests/published

# A module of its own, as ogen and oapi-codegen bring many others.
generators: ## clients made from the API's description by ogen and oapi-codegen, compiled, and a call with each
	$(GO) -C tools/generators test -count=1 -v -timeout 20m ./...

facades: build ## the published clients of other verifiers against this server, with verdicts of a simulated internet; needs Node
	cd tools/facades && npm ci --silent && node --test --test-timeout=120000 facades.test.mjs

# From the newest commit. A module of its own: nfpm makes the packages.
release: $(PAGE) ## bin/release: archives, .deb, .rpm, what is in them, checksums, of the newest commit
	rm -rf bin/release
	$(GO) -C tools/release run . -root ../.. -out ../../bin/release

release-test: $(PAGE) ## a release, twice, compared and looked into
	$(GO) -C tools/release test -count=1 -v -timeout 60m ./...

charts: ## renders deploy/helm anew
	cd tools/deploy && $(GO) run . -write ../../deploy

deploycheck: ## Helm's linter, Kubernetes' types, Prometheus' parsers over deploy
	cd tools/deploy && $(GO) run . ../../deploy

rehearse: root build ## the runbook in three network namespaces: break a prober, mend it, back up, restore; as root
	sh deploy/rehearse.sh "$(CURDIR)/bin/probity"

receivers: ## callbacks to HTTP servers of Python, PHP, Go and Express, which must be installed
	@command -v gunicorn node php >/dev/null || { echo "receivers: install them; on Debian: apt-get install gunicorn python3-flask nodejs node-express php-cli" >&2; exit 1; }
	PROBITY_RECEIVERS=1 $(GO) test -v -count=1 -timeout 10m ./tests/receivers

openapi: ## api/openapi.yaml by the rules of Spectral and Redocly; needs Node
	cd tools/openapi && npm ci --silent && npm run --silent lint

# The first run takes some ten minutes: Debian's packages are fetched, and maddy is compiled.
mta: root ## verdicts on mailboxes of real mail servers, each in a system of its own (MTA_CACHE); as root, with debootstrap
	sh tools/chroots.sh "$(MTA_CACHE)" 'postfix postfix postfix-pcre postgrey' 'exim exim4-daemon-light' 'opensmtpd opensmtpd' \
		'dovecot postfix dovecot-core dovecot-lmtpd' 'chasquid chasquid openssl'
	$(GO) -C tools/mta build -o "$(MTA_CACHE)/bin/maddy" github.com/foxcpp/maddy/cmd/maddy
	$(GO) build -o "$(MTA_CACHE)/bin/probity" ./cmd/probity
	PROBITY_MTA="$(MTA_CACHE)" $(GO) test -v -count=1 -parallel 32 -timeout 15m ./tests/mta

recording: ## docs/img/terminal.svg anew, which README shows
	sh tools/recording.sh

packaged: root ## the Debian package installed, upgraded during a job and removed, on a Debian with systemd (MTA_CACHE); as root, with debootstrap
	sh tools/chroots.sh "$(MTA_CACHE)" 'packaged systemd ca-certificates procps'
	PROBITY_PACKAGED="$(MTA_CACHE)" $(GO) test -v -count=1 -timeout 30m ./tests/packaged

# The packages are those that README names. It takes an hour and more.
BARE ?= demo test
bare: root ## README's commands (BARE) for an ordinary user on a Debian 12, without and with a C compiler and Node (MTA_CACHE); as root, with debootstrap
	sh tools/chroots.sh "$(MTA_CACHE)" 'bare git make ca-certificates'
	GO="$(GO)" sh tools/bare.sh "$(MTA_CACHE)" $(BARE)

licences: ## docs/licences.md anew
	cd tools && $(GO) run ./licences ..

vulncheck: ## known holes in what is linked, where their database can be reached
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

clean: ## removes bin
	rm -rf bin
