# The two commands of the README, and helpers around CMake. Works from a fresh Debian 12 or 13.
#   make run    install what is missing, build, fetch a small chat model, answer a question, say what is in a picture
#   make test   the whole suite, one closing summary
#   make bench  speed of this machine
#   make clean  remove build folders (fetched models stay in .cache)
SHELL := /bin/bash
MODELS := .cache/models
SMOLLM2 := $(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf
GEMMA3 := $(MODELS)/gemma-3-270m-q4_k_m.gguf
LOCKSTEP := build/release/bin/lockstep
SHAPES := fixtures/vision/gemma3_shapes
PICTURE := $(SHAPES)/heldout/03.jpg
PROMPT ?= What is the capital of France?
PICTURE_PROMPT ?= Where are the shapes?
RUN_OPTIONS ?=

.PHONY: all run test bench clean packages test-packages build plugins

all: build

run: build $(SMOLLM2)
	@echo
	@echo '> $(PROMPT)'
	@$(LOCKSTEP) run $(SMOLLM2) -p '$(PROMPT)' --stats $(RUN_OPTIONS)
	@echo
	@echo '> $(PICTURE): $(PICTURE_PROMPT)'
	@$(LOCKSTEP) run $(SHAPES) -p '$(PICTURE_PROMPT)' --image $(PICTURE) --temp 0 --stats

# Packages are checked each time (a fraction of a second) and installed only when missing.
packages:
	@tools/need_packages.sh build

test-packages:
	@tools/need_packages.sh test

build: packages
	@cmake --preset release > build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }
	@rm -f build.log
	@cmake --build --preset release --target lockstep_cli

$(SMOLLM2):
	@tools/fetch_models.py smollm2

$(GEMMA3):
	@tools/fetch_models.py gemma3

# PJRT plugins, and IREE's compiler and runtime, for the XLA backend's tests: about 310 MB, once.
plugins: packages
	@tools/fetch_plugins.py
	@tools/fetch_iree.py

test: test-packages plugins $(SMOLLM2) $(GEMMA3)
	@LS_SMOLLM2_GGUF=$(abspath $(SMOLLM2)) LS_GEMMA3_GGUF=$(abspath $(GEMMA3)) tests/run.sh

bench: build $(SMOLLM2) $(GEMMA3)
	@for model in $(SMOLLM2) $(GEMMA3); do $(LOCKSTEP) bench $$model $(RUN_OPTIONS); done
	@for script in bench/*.sh; do if [ -x "$$script" ]; then "$$script" $(SMOLLM2) $(GEMMA3) || exit 1; fi; done

clean:
	rm -rf build
