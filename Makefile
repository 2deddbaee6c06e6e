# vramalloc - make help lists the targets.

BUILD   ?= build
ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local

# The library itself is optimised as a whole unless CFLAGS say otherwise. Its objects are complete
# without that, for the tests that link them one by one. clang would need another linker for it.
ifeq ($(origin CFLAGS),undefined)
WHOLE   := -O3 $(if $(findstring Free Software,$(shell $(CC) --version 2>/dev/null)),-flto=auto -ffat-lto-objects)
PIECES  := $(if $(findstring lto,$(WHOLE)),-fno-lto)
endif
CFLAGS  ?= -O2 -g

# Where cuda.h is: $CUDA_HOME, beside nvcc, the usual place, or what scripts/setup fetched.
NVCC          := $(shell command -v nvcc 2>/dev/null)
CUDA_PLACES   := $(CUDA_HOME) $(if $(NVCC),$(realpath $(dir $(realpath $(NVCC)))..)) /usr/local/cuda build/cuda
CUDA_ROOT     := $(firstword $(foreach p,$(CUDA_PLACES),$(if $(wildcard $(p)/include/cuda.h),$(p))))
CUDA_ROOT     := $(if $(CUDA_ROOT),$(CUDA_ROOT),build/cuda)
CUDA_INCLUDE  := $(CUDA_ROOT)/include
CUDA_LIB      := $(firstword $(wildcard $(CUDA_ROOT)/lib64 $(CUDA_ROOT)/lib) $(CUDA_ROOT)/lib)

ARCH     := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
WARNINGS := -Wall -Wextra -Werror -Wconversion -Wshadow -Wstrict-prototypes
BASE     := -std=gnu11 $(WARNINGS) -MMD -MP
LIBRARY  := $(BUILD)/libvramalloc.so

# glibc before 2.34 keeps these apart from libc.
LIBC_PARTS := $(shell echo '__GLIBC__ __GLIBC_MINOR__' | $(CC) -E -P -include features.h - 2>/dev/null | \
                awk 'END { if ($$1 == 2 && $$2 < 34) print "-lpthread -ldl" }')

POOL_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard pool/*.c))
SHIM_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard shim/*.c)) $(BUILD)/obj/shim/dlsym_$(ARCH).o
SIM_OBJECTS  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/sim/*.c))
RUN_OBJECTS  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/runtime/*.c))
REPORT_OBJECTS := $(patsubst %,$(BUILD)/obj/shim/%.o,report report_text report_json report_latency report_origins report_path modules module_names advice histogram rank options signal_name log text units)

UNIT_HELPERS := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)) \
                  $(filter-out tools/replay/replay.c,$(wildcard tools/replay/*.c)) $(filter-out %/main.c,$(wildcard tools/common/*.c tools/trace/*.c tools/tune/*.c)))
UNITS        := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
SIM_LIBRARIES := $(BUILD)/sim/libcuda.so.1 $(BUILD)/sim/libcudart.so.13 $(BUILD)/sim/libcudart.so.12 \
                 $(BUILD)/sim/libcudart_static.a

.PHONY: all library sim replay tools units victims differential setup check demo oracle asan ubsan tsan coverage mutate tidy \
        format format-check bench bench-programs planted bare gpu-check gpu-bench gpu-build man documents install uninstall clean help always
.DEFAULT_GOAL := all

all: library ## build the library
library: $(LIBRARY)
sim: $(SIM_LIBRARIES)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- objects ----------------------------------------------------------------------------------

# Changes when the compiler or its flags do; every object depends on it.
FLAGS := $(CC) $(BASE) $(CFLAGS) $(WHOLE) $(CUDA_INCLUDE)
$(BUILD)/flags: always
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

$(BUILD)/obj/pool/%.o: pool/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(WHOLE) -fPIC -fvisibility=hidden -ftls-model=initial-exec -c -o $@ $<

$(BUILD)/obj/shim/%.o: shim/%.c $(BUILD)/flags | $(CUDA_INCLUDE)/cuda.h
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(WHOLE) $(UNWATCHED) -fPIC -fvisibility=hidden -ftls-model=initial-exec \
	    -isystem $(CUDA_INCLUDE) -c -o $@ $<

# A sanitizer's own start calls dlsym, before it can watch any code.
$(BUILD)/obj/shim/lookup.o: UNWATCHED := -fno-sanitize=all

$(BUILD)/obj/shim/%.o: shim/%.S $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<

$(BUILD)/obj/tests/%.o: tests/%.c $(BUILD)/flags | $(CUDA_INCLUDE)/cuda.h
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) -fPIC -isystem $(CUDA_INCLUDE) -c -o $@ $<

$(BUILD)/obj/tools/%.o: tools/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) -c -o $@ $<

$(CUDA_INCLUDE)/cuda.h:
	@scripts/setup build

# --- the library --------------------------------------------------------------------------------

$(BUILD)/exports.map: shim/hooks.def scripts/exports
	@mkdir -p $(@D)
	CC='$(CC)' scripts/exports --map > $@.new
	mv $@.new $@

$(LIBRARY): $(POOL_OBJECTS) $(SHIM_OBJECTS) $(BUILD)/exports.map
	$(CC) $(CFLAGS) $(WHOLE) -shared -o $@ $(POOL_OBJECTS) $(SHIM_OBJECTS) $(LIBC_PARTS) \
	    -Wl,--version-script=$(BUILD)/exports.map -Wl,--no-undefined -Wl,-z,relro,-z,now,-z,nodelete

# --- the simulated driver and the stand-in runtime --------------------------------------------------

$(BUILD)/sim/libcuda.so.1: $(SIM_OBJECTS) tests/sim/libcuda.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -shared -o $@ $(SIM_OBJECTS) -Wl,-soname,libcuda.so.1 \
	    -Wl,--version-script=tests/sim/libcuda.map -Wl,-Bsymbolic $(LIBC_PARTS) -lpthread
	ln -sf libcuda.so.1 $(@D)/libcuda.so

$(BUILD)/sim/libcudart.so.%: $(RUN_OBJECTS) tests/runtime/libcudart.%.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -shared -o $@ $(RUN_OBJECTS) -Wl,-soname,libcudart.so.$* \
	    -Wl,--version-script=tests/runtime/libcudart.$*.map -Wl,-Bsymbolic $(LIBC_PARTS)
	$(if $(filter 13,$*),ln -sf $(@F) $(@D)/libcudart.so)

$(BUILD)/sim/libcudart_static.a: $(RUN_OBJECTS)
	@mkdir -p $(@D)
	rm -f $@
	ar rcs $@ $^

# --- the replay tool ------------------------------------------------------------------------------------

COMMON_OBJECTS := $(patsubst tools/%.c,$(BUILD)/obj/tools/%.o,$(wildcard tools/common/*.c)) \
                  $(patsubst %,$(BUILD)/obj/shim/%.o,text units)
REPLAY_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/replay/*.c))
replay: $(BUILD)/vramalloc-replay ## build vramalloc-replay, which drives the pool with recorded traces
READER_OBJECTS := $(patsubst %,$(BUILD)/obj/tools/trace/%.o,reader lives)
$(BUILD)/vramalloc-replay: $(REPLAY_OBJECTS) $(READER_OBJECTS) $(POOL_OBJECTS) $(COMMON_OBJECTS)
	$(CC) $(CFLAGS) $(PIECES) -o $@ $^ -lz -lpthread

# --- the trace tools ---------------------------------------------------------------------------------

TRACE_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/trace/*.c)) \
                 $(patsubst %,$(BUILD)/obj/tools/replay/%.o,trace binary) $(COMMON_OBJECTS)
TOOLS := $(patsubst %,$(BUILD)/vramalloc-%,replay trace tune view live report)
tools: $(TOOLS) ## build the commands: vramalloc-trace, -replay, -tune, -view, -report, and -live for top and metrics
$(BUILD)/vramalloc-trace: $(TRACE_OBJECTS)
	$(CC) $(CFLAGS) -o $@ $^ -lz

TUNE_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/tune/*.c)) $(READER_OBJECTS) \
                $(filter-out %/replay.o,$(REPLAY_OBJECTS)) $(COMMON_OBJECTS)
$(BUILD)/vramalloc-tune: $(TUNE_OBJECTS) $(POOL_OBJECTS)
	$(CC) $(CFLAGS) $(PIECES) -o $@ $^ -lz -lpthread

VIEW_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/view/*.c)) $(READER_OBJECTS) \
                $(patsubst %,$(BUILD)/obj/tools/replay/%.o,trace binary card) $(COMMON_OBJECTS)
$(BUILD)/obj/tools/view/page.o: $(wildcard tools/view/page.*)
$(BUILD)/vramalloc-view: $(VIEW_OBJECTS)
	$(CC) $(CFLAGS) -o $@ $^ -lz

# The parts of the library that make its report, and jansson to read one. Modules are those that the report names.
$(BUILD)/vramalloc-report: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/report/*.c)) $(COMMON_OBJECTS) \
                           $(filter-out %/modules.o,$(REPORT_OBJECTS))
	$(CC) $(CFLAGS) $(PIECES) -o $@ $(sort $^) -ljansson

LIVE_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/live/*.c)) \
                $(BUILD)/obj/shim/live_format.o $(COMMON_OBJECTS)
$(BUILD)/vramalloc-live: $(LIVE_OBJECTS)
	$(CC) $(CFLAGS) $(PIECES) -o $@ $^

# --- unit tests ---------------------------------------------------------------------------------------

$(BUILD)/unit/test_sim%: $(BUILD)/obj/tests/unit/test_sim%.o $(SIM_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $^ -lcmocka -lpthread $(LIBC_PARTS)

$(BUILD)/unit/test_%: $(BUILD)/obj/tests/unit/test_%.o $(UNIT_HELPERS) $(POOL_OBJECTS) $(REPORT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(PIECES) -o $@ $^ -lcmocka -lz -lpthread $(UNIT_LINK)

$(BUILD)/unit/test_leaves: UNIT_LINK := -Wl,--wrap=page_map_get
$(BUILD)/unit/test_trace_file: $(BUILD)/obj/shim/trace.o
# Reads reports back, so modules are those that they name.
$(BUILD)/unit/test_report: $(BUILD)/obj/tests/unit/test_report.o $(UNIT_HELPERS) $(POOL_OBJECTS) \
                           $(filter-out %/modules.o,$(REPORT_OBJECTS)) \
                           $(patsubst %,$(BUILD)/obj/tools/report/%.o,read read_origins)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(PIECES) -o $@ $^ -lcmocka -lz -ljansson -lpthread

$(BUILD)/unit/test_histogram: $(BUILD)/obj/shim/latency.o
$(BUILD)/unit/test_order: $(patsubst %,$(BUILD)/obj/shim/%.o,deferred fence lazy_fence wait)

units: $(UNITS)

# --- the demo: one program, with the stand-in runtime and with the real one ----------------------------------

$(BUILD)/obj/demo/%.o: demo/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) -c -o $@ $<

$(BUILD)/demo/%: $(BUILD)/obj/demo/%.o $(SIM_LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $< -L$(BUILD)/sim -lcudart -Wl,-rpath-link,$(BUILD)/sim

$(BUILD)/demo/%-gpu: $(BUILD)/obj/demo/%.o
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $< $(CUDA_LIB)/libcudart_static.a -lpthread -ldl -lrt

# --- checks ----------------------------------------------------------------------------------------------

-include tests/victims/victims.mk
-include tests/differential/differential.mk
-include tests/bench/bench.mk
-include tests/schedule/schedule.mk
-include tests/gpu/contend.mk

setup: ## install what is needed (apt, pip); quick when all is there
	@scripts/setup

check: setup ## run every test that needs no GPU
	@BUILD=$(BUILD) CUDA_HOME='$(CUDA_ROOT)' scripts/check

demo: ## show the library at work
	@scripts/setup build
	@$(MAKE) --no-print-directory -s library
	@BUILD=$(BUILD) demo/run

asan: setup ## units and victims under AddressSanitizer and UndefinedBehaviorSanitizer
	@BUILD=$(BUILD) scripts/sanitize address,undefined

ubsan: asan ## the same as asan: both run together

tsan: setup ## threaded units and victims under ThreadSanitizer
	@BUILD=$(BUILD) scripts/sanitize thread

mutate: setup ## faults put into a copy of the sources, one at a time: the tests must notice
	@scripts/mutate

oracle: setup library victims ## 1,000,000 random operations in each mode before the simulator's oracle
	@BUILD=$(BUILD) tests/checks/oracle --operations 1000000

coverage: setup ## line coverage of pool/ and shim/ by the units and victims
	@BUILD=$(BUILD) scripts/coverage

tidy: setup ## clang-tidy over pool/ and shim/
	clang-tidy --quiet $(wildcard pool/*.c shim/*.c) -- -std=gnu11 -isystem $(CUDA_INCLUDE)

SOURCES := $(wildcard pool/*.[ch] shim/*.[ch] tests/*/*.[ch] tools/*/*.[ch] demo/*.[ch])
format: ## clang-format every source file in place
	clang-format -i $(SOURCES)
format-check:
	clang-format --dry-run -Werror $(SOURCES)

bench: ## what the pool costs beside host allocators, without a GPU: one table (BENCH=--quick: 20 s)
	@scripts/setup bench
	@$(MAKE) --no-print-directory -s bench-programs
	@BUILD='$(BUILD)' CC='$(CC)' tests/bench/run $(BENCH)

# --- on a machine with a GPU ----------------------------------------------------------------------------

gpu-build: library ## build the programs for a real GPU (needs nvcc)
	@BUILD=$(BUILD) tests/gpu/build
	@BUILD='$(BUILD)' tests/gpu/build_contenders
# The library with a fault each, which tests/checks/oracle must see fail; tests/gpu/check as well the first, which takes
# every fence as passed.
PLANTED       := no_fence late_fence one_stream tail_free stream_handle
PLANTED_PARTS := pool/limbo shim/capture shim/fence shim/hooks_memory

define planted_rules
$(BUILD)/planted/$(1)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$(CC) $(BASE) $(CFLAGS) -DVRAMALLOC_PLANT_$(shell echo $(1) | tr a-z A-Z) -O2 -fPIC -fvisibility=hidden \
	    -ftls-model=initial-exec -isystem $(CUDA_INCLUDE) -c -o $$@ $$<

$(BUILD)/planted/$(1)/libvramalloc.so: $(LIBRARY) $(PLANTED_PARTS:%=$(BUILD)/planted/$(1)/obj/%.o)
	$(CC) $(CFLAGS) $(PIECES) -shared -o $$@ $$(filter %.o,$$^) $(LIBC_PARTS) \
	    $(filter-out $(PLANTED_PARTS:%=$(BUILD)/obj/%.o),$(POOL_OBJECTS) $(SHIM_OBJECTS)) \
	    -Wl,--version-script=$(BUILD)/exports.map -Wl,--no-undefined -Wl,-z,relro,-z,now,-z,nodelete
endef
$(foreach name,$(PLANTED),$(eval $(call planted_rules,$(name))))

planted: $(PLANTED:%=$(BUILD)/planted/%/libvramalloc.so)
	@cp $(BUILD)/planted/$(firstword $(PLANTED))/libvramalloc.so $(BUILD)/planted/libvramalloc.so

# The library without latency histograms, otherwise the same: tests/gpu/steps --overhead measures against it.
bare:
	@$(MAKE) --no-print-directory -s BUILD=$(BUILD)/bare WHOLE='$(WHOLE) -DVRAMALLOC_NO_LATENCY' library

gpu-check: library planted ## real programs with and without the library, on a real GPU: one table
	@BUILD=$(BUILD) tests/gpu/check
gpu-bench: library ## what allocations cost beside other allocators, on a real GPU: one table (BENCH=options)
	@BUILD='$(BUILD)' tests/gpu/bench $(BENCH)

# --- installing -------------------------------------------------------------------------------------------

# Of what the commands say for --help: those that are not built are left out.
DOCUMENTS := share/man/man1/vramalloc.1 share/man/man7/libvramalloc.7 share/bash-completion/completions/vramalloc
documents:
	@VRAMALLOC_LIB='$(LIBRARY)' scripts/manual man '$(BUILD)/man'
	@VRAMALLOC_LIB='$(LIBRARY)' scripts/manual completion '$(BUILD)/man/completions/vramalloc'
man: all tools ## make the man pages and bash's completion (needs python3)
	@$(MAKE) --no-print-directory -s documents

# In the environment, since a folder's name may have any character.
install uninstall: export INSTALL_ROOT = $(DESTDIR)$(PREFIX)

install: all ## copy library, launcher, what tools are built, man pages and completion to PREFIX
	install -D -m 755 $(LIBRARY) "$$INSTALL_ROOT/lib/libvramalloc.so"
	install -D -m 755 scripts/vramalloc "$$INSTALL_ROOT/bin/vramalloc"
	@for tool in $(wildcard $(TOOLS)); do install -m 755 "$$tool" "$$INSTALL_ROOT/bin/"; done
	@command -v python3 >/dev/null || { echo "no python3: without man pages and completion"; exit 0; }; \
	    $(MAKE) --no-print-directory -s documents && for document in $(DOCUMENTS); do \
	    from=$${document#share/man/man?/} from=$${from#share/bash-completion/}; \
	    install -D -m 644 "$(BUILD)/man/$$from" "$$INSTALL_ROOT/$$document" || exit 1; done

uninstall: ## remove them
	@if [ -d "$$INSTALL_ROOT" ]; then cd "$$INSTALL_ROOT" && \
	    rm -f lib/libvramalloc.so bin/vramalloc $(TOOLS:$(BUILD)/%=bin/%) $(DOCUMENTS); fi

clean: ## remove build products
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(BUILD)/planted -name '*.d' 2>/dev/null)
