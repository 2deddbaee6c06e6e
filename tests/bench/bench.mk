# bench.mk - the CPU benchmark: the program, and the contenders that are preloaded. The pool is built as in the
# library; counted: with a stub in place of what valgrind refuses.

BENCH_DIR     := $(BUILD)/bench
BENCH_OBJECTS := $(patsubst %,$(BUILD)/obj/tests/bench/%.o,bench measure alone flat threads)
BENCH_SHARED  := $(CFLAGS) $(WHOLE) -shared -Wl,-z,relro,-z,now

bench-programs: $(BENCH_DIR)/bench $(BENCH_DIR)/hooked $(patsubst %,$(BENCH_DIR)/libbench_%.so,pool counted empty)

$(BENCH_OBJECTS): $(BUILD)/obj/tests/bench/%.o: tests/bench/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) -c -o $@ $<

$(patsubst %,$(BUILD)/obj/tests/bench/%.o,contender_pool contender_empty fence_stub): \
  $(BUILD)/obj/tests/bench/%.o: tests/bench/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(WHOLE) -fPIC -fvisibility=hidden -c -o $@ $<

$(BENCH_DIR)/bench: $(BENCH_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $^ -lm -lpthread -ldl

$(BENCH_DIR)/hooked: tests/bench/hooked.c $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(BASE) -O2 -isystem $(CUDA_INCLUDE) -o $@ $< -L$(BUILD)/sim -lcuda

$(BENCH_DIR)/libbench_pool.so: $(BUILD)/obj/tests/bench/contender_pool.o $(POOL_OBJECTS)
$(BENCH_DIR)/libbench_counted.so: $(BUILD)/obj/tests/bench/contender_pool.o $(BUILD)/obj/tests/bench/fence_stub.o \
  $(filter-out %/asymmetric.o,$(POOL_OBJECTS))
$(BENCH_DIR)/libbench_empty.so: $(BUILD)/obj/tests/bench/contender_empty.o
$(BENCH_DIR)/libbench_%.so:
	@mkdir -p $(@D)
	$(CC) $(BENCH_SHARED) -o $@ $^ $(LIBC_PARTS)
