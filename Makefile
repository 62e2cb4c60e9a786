# Every target that needs Python packages makes .venv first, from hashed pins (constraints/dev.txt), once.
# On a fresh machine Python 3.10+, Java 17+ and Maven must be there; `make test` brings the rest where it may.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Four workers on two cores: tests also wait for sockets and brokers.
PYTEST := $(BIN)/pytest -n 4
TOGETHER = $(MAKE) --no-print-directory --jobs=5 $(addprefix --,$(if $(filter output-sync,$(.FEATURES)),output-sync=line))
CODE := $(wildcard exporter tests hangbench examples benchmarks grafana alerts helm docs)
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
# Some containers forbid bytecode: each of five pytest processes would then rewrite 257 files again, 3 s of processor each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install house check test test-all test-helm demo demo-pipeline docs bench bench-all bench-fleet bench-pipeline bench-pipeline-ids bench-baselines soak hostile model fuzz release images kerberos generate dashboard-pictures lint types contracts tools packages engine release-tools java clean constraints

help:
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ First steps

install: $(INSTALLED)  ## the virtual environment with all pinned packages and this project

# Twice quiet: errors, but not pip's warnings to the authors of packages (pyspark is built in a way that pip deprecates).
PIP_FLAGS := --quiet --quiet --disable-pip-version-check

# $(call environment,FOLDER)
define environment
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit(1)' \
  || { echo "Python 3.10 or newer is needed: set PYTHON=... ($(PYTHON) is not)." >&2; exit 1; }
@echo "installing into $(1)"
@$(PYTHON) -m venv $(1) \
  || { echo "$(PYTHON) cannot make a virtual environment: on Debian install python3-venv." >&2; exit 1; }
endef

$(INSTALLED): pyproject.toml constraints/dev.txt
	$(call environment,$(VENV))
	@$(BIN)/pip install $(PIP_FLAGS) --require-hashes -r constraints/dev.txt
	@$(BIN)/pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $@

# The demo needs the exporter's own packages only: 350 MB instead of 1.5 GB. Where all are installed, these are used.
DEMO := $(if $(wildcard $(INSTALLED)),$(VENV),build/demo)

demo: java $(DEMO)/.installed  ## a real Kafka, a workload, a planted hanging transaction, and the exporter on port 9814
	@$(DEMO)/bin/python -m examples.demo

build/demo/.installed: pyproject.toml constraints/runtime.txt constraints/dev.txt
	$(call environment,build/demo)
	@sed -n '/^setuptools==/,/^ *#/p' constraints/dev.txt > build/demo/build-requirements.txt
	@build/demo/bin/pip install $(PIP_FLAGS) --require-hashes \
	  -r constraints/runtime.txt -r build/demo/build-requirements.txt
	@build/demo/bin/pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $@

demo-pipeline: java install  ## a minute of its history, then the pipeline with Spark, and the report
	@$(BIN)/python -m examples.demo.pipeline

##@ After a change

check: house  ## lint, types, contracts, and tests that start no other program
	$(PYTEST)

test: java  ## the same, and tests on brokers, Spark, Prometheus, Helm, a browser
	@$(TOGETHER) tools lint types contracts
	$(PYTEST) -m "not slow"

house: install  ## lint, types and contracts at the same time
	@$(TOGETHER) lint types contracts

lint: install  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy, strict
	$(BIN)/mypy $(CODE)

contracts: install  ## import-linter: data flows one way
	$(BIN)/lint-imports

generate: install  ## every file that is made from others: documents, schemas, dashboards, chart, expected output
	$(BIN)/python -m tests.generated

docs: install  ## the documentation as a site (build/site/), a dead link fails it (Python 3.11+)
	@$(BIN)/python -c 'import sphinx' 2>/dev/null \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints/docs.txt
	@rm -rf build/site
	$(BIN)/python -m sphinx --quiet --nitpicky --fail-on-warning --keep-going --conf-dir docs/site --doctree-dir build/site-pages \
	  . build/site
	@echo "open build/site/index.html"

##@ Before a release

test-all: tools kerberos engine release-tools house  ## every test, also more Kafka versions, Kerberos, an API server
	@$(BIN)/python -m tests.tools slow || echo "The tests that need these are skipped."
	@$(MAKE) docs || echo "The tests of the documentation's site fail, or are skipped before Python 3.11."
	$(PYTEST) -m "" --hypothesis-profile thorough

test-helm: install  ## the chart on a real API server, with both majors of Helm (needs Go 1.26)
	@$(BIN)/python -m tests.tools api-server
	$(BIN)/pytest -m api_server tests/helm

bench: java install  ## scans next to the peers, processes, cycles and scrapes (kadm where there is Go 1.26)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.transaction_log

bench-all: java install  ## the same, and growth, bounds, memory over 1,000 cycles, a loaded broker, a fleet
	$(BIN)/python -m benchmarks all

bench-fleet: install  ## many clusters in one process and on Spark (needs Java 17)
	$(BIN)/python -m benchmarks fleet

bench-pipeline: java install  ## Spark's tables of a generated history next to DuckDB (PIPELINE_ROWS=10000000,...)
	@$(BIN)/python -c 'import duckdb' 2>/dev/null \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints/bench.txt
	$(BIN)/python -m benchmarks.pipeline

bench-pipeline-ids: java install  ## baselines of 60 clusters with 5,000 ids each (PIPELINE_CLUSTERS, PIPELINE_IDS, PIPELINE_SAMPLES)
	$(BIN)/python -m benchmarks.pipeline_ids

bench-baselines: install  ## false alarms of the baselines' thresholds, and how soon they notice a hang, on many shapes of durations
	$(BIN)/python -m benchmarks.baselines

soak: java install  ## a fault every few seconds on three brokers, 20 minutes (SOAK_MINUTES, SOAK_SEED)
	$(BIN)/python -m tests.verification.soak
	$(BIN)/python -m tests.verification.soak.flat
	$(BIN)/python -m tests.verification.hostile

hostile: install  ## malicious brokers at full size, within bounds of CPU and memory; a part of soak
	$(BIN)/python -m tests.verification.hostile

model: install  ## the proof against 1,000,000 orders of events (MODEL_SCHEDULES, MODEL_SECONDS)
	$(BIN)/python -m tests.verification.model all --processes 2 --schedules $${MODEL_SCHEDULES:-1000000} $${MODEL_SECONDS:+--seconds $$MODEL_SECONDS}

fuzz: install  ## every reader of foreign bytes, a minute each (FUZZ_SECONDS; Python 3.11+)
	@$(BIN)/python -c 'import atheris' 2>/dev/null \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints/fuzz.txt
	$(BIN)/python -m tests.verification.fuzz

dashboard-pictures: tools  ## every dashboard drawn with Grafana's own components (needs Node.js 20+ and npm)
	@for program in node npm; do command -v $$program >/dev/null \
	  || { echo "$$program is missing: on Debian install nodejs and npm." >&2; exit 1; }; done
	$(BIN)/python -m tests.verification.pictures

##@ Releases

release: release-tools  ## packages, chart, SBOMs, sums and notes of VERSION=1.2.3 (build/release/): the same bytes each time
	@[ -n "$${VERSION:-}" ] || { echo "VERSION is missing: make release VERSION=1.2.3" >&2; exit 1; }
	@$(BIN)/python -m tests.release "$$VERSION"

images: install  ## both images, by docker, podman or buildah (DEBIAN_IMAGE, IMAGE_PREFIX, ENGINE)
	@$(BIN)/python -m tests.release.images

constraints:  ## constraints/*.txt with the newest versions that pyproject.toml allows, with hashes
	@rm -rf build/uv && $(PYTHON) -m venv build/uv && build/uv/bin/pip install --quiet uv==$(UV_VERSION)
	@compile="build/uv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes"; \
	export UV_CUSTOM_COMPILE_COMMAND="make constraints"; \
	$$compile --extra dev pyproject.toml -o constraints/dev.txt; \
	$$compile --constraints constraints/dev.txt --extra history --extra msk pyproject.toml -o constraints/runtime.txt; \
	$$compile --constraints constraints/dev.txt --extra bench pyproject.toml -o constraints/bench.txt; \
	$$compile --constraints constraints/dev.txt --extra fuzz pyproject.toml -o constraints/fuzz.txt; \
	$$compile --constraints constraints/dev.txt --extra docs pyproject.toml -o constraints/docs.txt; \
	$$compile --constraints constraints/dev.txt --extra release pyproject.toml -o constraints/release.txt; \
	$$compile --constraints constraints/dev.txt --extra gssapi pyproject.toml -o constraints/kerberos.txt; \
	$$compile --constraints constraints/dev.txt --extra history --extra spark pyproject.toml -o constraints/spark.txt
	@rm -rf build/uv

##@ This machine

java:
	@command -v java >/dev/null || { echo "Java 17 or newer is missing: on Debian install openjdk-17-jre-headless." >&2; exit 1; }
	@version=$$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p'); [ "$${version:-0}" -ge 17 ] \
	  || { echo "Java 17 or newer is needed, found $${version:-an unknown version}." >&2; exit 1; }
	@command -v mvn >/dev/null || { echo "Maven (mvn) is missing: on Debian install maven." >&2; exit 1; }

tools: java packages install  ## Helm, kubeconform and others for tests, in the home directory's cache
	@$(BIN)/python -m tests.tools

# Debian would start Prometheus and Alertmanager as services on installation: policy-rc.d answering 101 forbids that.
packages:  ## Prometheus, Alertmanager, jsonnet, Chromium for tests (by apt-get where run as root)
	@missing=""; \
	command -v promtool >/dev/null || missing="$$missing prometheus"; \
	command -v amtool >/dev/null || missing="$$missing prometheus-alertmanager"; \
	command -v jsonnet >/dev/null || missing="$$missing jsonnet"; \
	command -v chromium >/dev/null || missing="$$missing chromium fonts-dejavu-core"; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "Programs for the tests are missing, install these Debian packages or their like:$$missing" >&2; exit 1; \
	fi; \
	echo "installing$$missing"; \
	policy=/usr/sbin/policy-rc.d; \
	if [ ! -e $$policy ]; then \
	  trap "rm -f $$policy" EXIT; printf '#!/bin/sh\nexit 101\n' > $$policy; chmod +x $$policy; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq && apt-get install -qq --no-install-recommends $$missing >/dev/null

kerberos: install  ## a KDC and Kerberos for Python, for slow tests (by apt-get where run as root)
	@missing=""; \
	command -v krb5kdc >/dev/null || [ -x /usr/sbin/krb5kdc ] || missing="$$missing krb5-kdc krb5-admin-server krb5-user"; \
	command -v krb5-config >/dev/null || missing="$$missing libkrb5-dev gcc"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "The Kerberos tests are skipped without these Debian packages or their like:$$missing"; exit 0; \
	  fi; \
	  echo "installing$$missing"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -qq --no-install-recommends $$missing >/dev/null; \
	fi; \
	$(BIN)/python -c 'import gssapi' 2>/dev/null \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints/kerberos.txt

engine: install  ## podman and a base image, for slow tests of the images (by apt-get where run as root)
	@missing=""; \
	for program in podman runc debootstrap catatonit netavark aardvark-dns iptables; do \
	  PATH="$$PATH:/usr/sbin:/usr/lib/podman:/usr/libexec/podman" command -v $$program >/dev/null || missing="$$missing $$program"; \
	done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "The tests of the images are skipped without these Debian packages or their like:$$missing"; exit 0; \
	  fi; \
	  echo "installing$$missing"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -qq --no-install-recommends $$missing >/dev/null; \
	fi; \
	$(BIN)/python -m tests.images.engine

release-tools: install  ## build, twine and cyclonedx-py
	@$(BIN)/python -c 'import build.env, cyclonedx_py, twine' 2>/dev/null \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints/release.txt

clean:  ## what was made here (Kafka's jars stay in the cache of the home directory)
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
