# Every target says what it does in its own line: `make help`.
# PYTHON: the first Python that is new enough. The set-up answers in a sentence when there is none.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; exit; fi; \
	done; echo python3)
BOOTSTRAP = $(PYTHON) tools/bootstrap.py
DEV = .venv/bin
# Where it is set, each of the many Pythons that are started compiles all of Berth again.
unexport PYTHONDONTWRITEBYTECODE
UNIT = not real and not browser and not postgres and not redis and not root and not gpu and not cluster and not deploy and not slow and not long

.DEFAULT_GOAL := help
.PHONY: help run down demo demo-down serving test test-long check lint types unit dev screens bench schema settings messages lock
.PHONY: cluster-up cluster-down cluster-status cluster-build

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## set up what is missing and start Berth here; Ctrl-C ends it, workspaces go on
	@exec $(BOOTSTRAP) run $(ARGS)

down: ## end a Berth that runs here, and its workspaces
	@.venv-server/bin/python -m portal.server down --workspaces

# Its own folder, so that what is made up is never among real work; the environments are shared.
DEMO = BERTH_VAR=$(CURDIR)/var/demo BERTH_ENVIRONMENTS_DIR=$(or $(BERTH_ENVIRONMENTS_DIR),$(CURDIR)/var/environments)

demo: ## a day on 8 + 4 simulated GPUs with made-up people, to watch how they are shared
	@exec env $(DEMO) BERTH_DEMO=yes BERTH_SIMULATED_GPUS=8xH100-80,4xA100-40 \
		BERTH_RECLAIM_GRACE_SECONDS=10 BERTH_CPU_OVERCOMMIT=32 BERTH_MEMORY_OVERCOMMIT=16 \
		$(BOOTSTRAP) run $(ARGS)

demo-down: ## end the demonstration and forget it
	@env $(DEMO) .venv-server/bin/python -m portal.server down --workspaces
	rm -rf var/demo

serving: ## what this machine serves models with (ARGS="tensorflow pytorch" for those: 1.4 and 5.3 GB)
	@$(BOOTSTRAP) serving $(ARGS)

test: ## each capability on real parts: JupyterLab, browser, stores, PostgreSQL, Redis, Kubernetes (ARGS="-k word" for some)
	@exec $(BOOTSTRAP) test $(ARGS)

test-long: ## everything: floods, kills, upgrades, images, charts, benchmarks in small; writes docs/test-report.md
	@exec $(BOOTSTRAP) long $(ARGS)

check: dev ## the quick one: style, layers, types, migrations, unit tests
	@$(MAKE) --no-print-directory -j 3 unit types lint

lint: ## style and layers
	$(DEV)/ruff check .
	$(DEV)/ruff format --check .
	$(DEV)/lint-imports
	$(DEV)/djlint --lint --quiet templates

# makemigrations begins with Django's own checks, all that `manage.py check` does.
types: ## types, model changes without a migration, Django's own checks
	$(DEV)/mypy .
	$(DEV)/python manage.py makemigrations --check --dry-run --settings portal.settings.test

# Six workers for two cores: a good part of the tests' time is waiting, and whoever has no test left
# takes some of another's. Each collects all tests: those with a browser are none of these, and
# import much. So do two plug-ins: one's tests of the whole schema are slow, nothing uses the other.
unit: ## unit tests only
	BERTH_EXAMPLES=5 $(DEV)/pytest -n 6 --dist worksteal -m "$(UNIT)" --ignore=tests/browser \
		-p no:schemathesis -p no:faker $(ARGS)

dev: ## the developers' environment in .venv
	@$(BOOTSTRAP) dev

screens: dev ## pictures of every page, light and dark, wide and narrow
	$(DEV)/python tools/screens.py $(ARGS)

bench: dev ## measure against the goals and write the report
	$(DEV)/python -m benchmarks.run $(ARGS)

cluster-up: dev ## a real Kubernetes cluster on this machine, from sources (Linux, root, Go)
	@$(DEV)/python -m devcluster up

cluster-down: dev ## end that cluster and all that belongs to it
	@$(DEV)/python -m devcluster down

cluster-status: dev ## whether it runs, and what is wrong when it does not
	@$(DEV)/python -m devcluster status

cluster-build: dev ## build its programs only (ARGS="helm traefik" for those it does not need itself)
	@$(DEV)/python -m devcluster build $(ARGS)

schema: dev ## write docs/openapi.yaml and the options of the command line from the code
	$(DEV)/python tools/cli_fields.py
	$(DEV)/python manage.py spectacular --file docs/openapi.yaml --validate --fail-on-warn \
		--settings portal.settings.test

settings: dev ## write the tables of docs/settings.md from portal/settings/table
	$(DEV)/python tools/settings_page.py

messages: dev ## collect the texts to translate
	$(DEV)/python tools/messages.py $(ARGS)

lock: ## pin every dependency again, with hashes
	@$(PYTHON) tools/lock.py
