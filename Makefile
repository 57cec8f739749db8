# Each target sets up its requirements in .venv; nothing is installed outside the project.
# Needs Python 3.11 or newer (choose one with PYTHON=python3.12) and a package index.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# pip compiles on one core; this uses all, and leaves out the packages' own tests and rarely imported modules. Some files
# are templates. Warnings about third-party source appear here rather than in a test, where they are errors.
RARE := modelscope|aliyunsdkcore|oss2|networkx|mypyc?|jieba|fontTools|Crypto|openai|huggingface_hub|joblib|fsspec
SYMPY := physics|combinatorics|stats|parsing
UNUSED := /tests?/|/_vendor/|/torch/(testing|_inductor)/|/transformers/models/|/($(RARE))/|/sympy/($(SYMPY))/|/numba/cuda/|/pygments/lexers/|/onnx(runtime)?/(transformers|tools|reference)/
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 -x '$(UNUSED)' .venv/lib || true
# The lock has versions and hashes of all packages except torch, whose build differs between machines.
LOCK := requirements-dev.lock
DEV := local,torch,emotion,wordnet,livekit,export,chinese,dev
# Every extra for users; `.venv/dev` has some of these and the development tools.
SHIPPED := local,mic,keyring,torch,emotion,wordnet,ray,livekit,nova-sonic,export,sets,chinese,inspect
PYTEST := $(BIN)/python -m pytest --quiet
SHORT ?= -m "not slow"
# The demo opens its report on a desktop, but not in CI or over SSH.
OPEN := $(if $(CI)$(SSH_CONNECTION),,$(if $(DISPLAY)$(WAYLAND_DISPLAY)$(filter Darwin,$(shell uname)),--open))
# pytest explains failed assertions by rewriting all test modules, in each process again, which takes longer than reading
# them. Failed tests run once more with explanations.
PLAIN := $(PYTEST) --assert=plain --showlocals --dist worksteal
# One test process per core, each with one thread: more threads than cores slow each other down.
SPREAD := OMP_NUM_THREADS=1 $(PLAIN) --numprocesses auto
# Tests over sockets mostly wait for speech at its own pace, so more of them than cores run at a time.
WAITING := OMP_NUM_THREADS=1 $(PLAIN) --numprocesses 8
# A test of times that failed beside others on a busy machine must pass alone.
AGAIN := OMP_NUM_THREADS=1 $(PYTEST) --last-failed --last-failed-no-failures none
# These tests measure timing, so nothing may run at the same time.
ALONE := tests/loopback/test_calibrate.py
STRANGERS := tests/e2e/strangers
VIRTUAL_SOUND := apt-get install libportaudio2 pulseaudio pulseaudio-utils libasound2-plugins

# Tests start live-eval many times: without a bytecode cache each start compiles all modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo live-demo docs test test-slow lint lock licences sbom wheel-test format strangers virtual-sound e2e e2e-short fuzz soak bench clean

help: ## Show the targets.
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/python: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "live-eval needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@touch $@

.venv/local: .venv/python pyproject.toml constraints.txt
	@echo "setting up .venv (live-eval with its offline recogniser and voice) …"
	@$(BIN)/python scripts/install.py --constraint constraints.txt --editable '.[local]'
	@$(COMPILE)
	@touch $@

# The lock is tested on Linux; elsewhere pip resolves the versions. torch comes from pip's index, which uv does not read.
# The last step adds dependencies of torch's build.
.venv/dev: .venv/python pyproject.toml constraints.txt $(LOCK)
	@echo "setting up .venv (live-eval with every offline judge, and development tools) …"
	@if [ "$$(uname)" = Linux ]; then \
	  $(PIP) --no-deps torch torchaudio & torch=$$!; \
	  $(BIN)/python scripts/install.py --no-deps --require-hashes --requirement $(LOCK) && wait $$torch; \
	fi
	@$(BIN)/python scripts/install.py --constraint constraints.txt --editable '.[$(DEV)]'
	@$(COMPILE)
	@touch .venv/local $@

.venv/mic: .venv/dev
	@echo "setting up .venv (the microphone) …"
	@$(PIP) --editable '.[mic]'
	@touch $@

.venv/bench: .venv/dev
	@echo "setting up .venv (packages that the benchmarks compare with) …"
	@$(PIP) --editable '.[$(DEV),bench,ray]'
	@touch $@

.venv/ray: .venv/dev
	@echo "setting up .venv (Ray) …"
	@$(PIP) --editable '.[ray]'
	@touch $@

.venv/fuzz: .venv/dev
	@echo "setting up .venv (coverage-guided fuzzing) …"
	@$(PIP) --editable '.[$(DEV),fuzz]'
	@touch $@

.venv/shipped: .venv/dev
	@echo "setting up .venv (every extra) …"
	@$(PIP) --editable '.[$(SHIPPED)]'
	@touch $@

.venv/docs: .venv/python pyproject.toml constraints.txt
	@echo "setting up .venv (documentation tools) …"
	@$(PIP) --editable '.[docs]'
	@touch $@

.venv-strangers/%/ready: $(STRANGERS)/requirements-%.txt .venv/python
	@echo "setting up $(@D) (third-party programs) …"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(STRANGERS)/node_modules/ready: $(STRANGERS)/package.json $(STRANGERS)/package-lock.json
	@if command -v npm >/dev/null; then \
	  echo "setting up $(STRANGERS)/node_modules (third-party programs) …"; \
	  cd $(STRANGERS) && npm ci --loglevel=error && touch node_modules/ready; \
	else echo "npm not found: tests that need its packages are skipped"; fi

# p95 needs 30 turns with a certain end. Recognising the replies (wer_spoken) would take 26 s of CPU more.
demo: ## Run the bundled sample against the built-in endpoint and write a report.
	@test -e .venv/local || echo "make demo: installs live-eval in .venv (0.9 GB, about 1 min), then runs 42 turns (1 min)"
	@$(MAKE) --no-print-directory .venv/local
	@$(BIN)/live-eval run reference --data sample --limit 21 --repeat 2 --judges dnsmos,wer_heard,bleu,rouge_l $(OPEN)
	@printf '%s\n' '' 'Next:' \
	  '  $(BIN)/live-eval studio          # look at the turns in the browser, and listen to them' \
	  '  $(BIN)/live-eval show latest     # the same values in the terminal' \
	  '  $(BIN)/live-eval run openai --limit 5    # your model; needs OPENAI_API_KEY'

live-demo: .venv/local ## Start the built-in assistant and the studio, until Ctrl-C.
	@$(BIN)/python scripts/live_demo.py

docs: .venv/docs ## Build the documentation as a site that opens offline; a broken link is an error.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "documentation: build/docs/index.html"

test: .venv/dev ## Run the tests.
	@$(SPREAD) $(SHORT) tests/unit tests/conformance || { $(AGAIN) $(SHORT) tests/unit tests/conformance; exit 1; }
	@$(WAITING) $(SHORT) --ignore $(ALONE) tests/loopback || $(AGAIN) $(SHORT) --ignore $(ALONE) tests/loopback
	@$(PYTEST) $(ALONE)

test-slow: .venv/dev ## Run the tests that take minutes: networks of full size, every damaged message.
	@$(PYTEST) -m slow tests/unit tests/conformance tests/loopback

# mypy takes longer than all the others together, so they run next to it. Its workers have 3 s to start; if that is too
# short, it ends with status 2 and runs again without them.
lint: .venv/dev ## Check style, types and imports between layers.
	@{ $(BIN)/mypy --num-workers 2 || { [ $$? = 2 ] && $(BIN)/mypy; }; } & mypy=$$!; \
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports; others=$$?; \
	wait $$mypy && exit $$others

wheel-test: .venv/python ## Install the wheel into a fresh environment (PYTHON=python3.13) and run a session.
	@$(PYTHON) scripts/wheel_test.py

lock: .venv/python ## Lock the development dependencies again, at their newest versions.
	@sh scripts/lock.sh $(BIN)/python $(DEV) $(LOCK)

licences: .venv/shipped ## Write docs/reference/licences.md from the installed packages.
	@$(BIN)/python scripts/licences.py

sbom: .venv/shipped ## Write users' packages, with versions and licences, to build/sbom.cdx.json (CycloneDX).
	@$(PIP) cyclonedx-bom
	@$(BIN)/python scripts/sbom.py

format: .venv/dev ## Format the code.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

strangers: .venv-strangers/voice/ready .venv-strangers/fastrtc/ready .venv-strangers/livekit/ready .venv-strangers/exports/ready $(STRANGERS)/node_modules/ready ## Set up the third-party programs of e2e.

virtual-sound: .venv/mic
	@$(BIN)/python -c 'import sounddevice' 2>/dev/null && command -v pulseaudio >/dev/null && command -v paplay >/dev/null \
	  || echo "no virtual sound card: tests at the microphone are skipped. For them, as root: $(VIRTUAL_SOUND)"

e2e: .venv/dev .venv/ray strangers virtual-sound ## Run whole conversations with third-party clients and models.
	@$(PYTEST) -rs tests/e2e

e2e-short: .venv/dev ## Run the part of e2e that takes about a minute.
	@$(SPREAD) --dist loadfile --numprocesses 5 $(SHORT) -rs tests/e2e

fuzz: .venv/fuzz ## Fuzz dialects, parsers and the studio for SECONDS (10) each, or only TARGETS="openai wav".
	@$(BIN)/python -m tests.fuzz $(TARGETS) --seconds $(or $(SECONDS),10)

soak: .venv/local ## Run SESSIONS (50) at a time for HOURS (0.5): memory, open files and lag over time.
	@$(BIN)/python benchmarks/soak.py reference --sessions $(or $(SESSIONS),50) --hours $(or $(HOURS),0.5) \
	  --out build/soak-$$(date +%Y%m%d-%H%M).csv

bench: .venv/bench ## Run the benchmarks; each ends with one line: its value and its aim.
	@for file in benchmarks/[a-z]*.py; do \
	  echo "== $$file"; $(BIN)/python $$file || failed="$$failed $$file"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

clean: ## Remove environments and caches; keep the runs in recordings/.
	rm -rf .fuzz .venv .venv-strangers $(STRANGERS)/node_modules build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
