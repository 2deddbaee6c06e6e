# contend.mk - the GPU benchmark's program on the simulated driver, static and shared runtime: what tests/checks/gpu-bench
# runs. For a real GPU: tests/gpu/build.

CONTEND_PARTS := $(patsubst %,tests/gpu/%.c,contend contend_runtime contend_sim)
CONTEND_FLAGS := -std=gnu11 $(WARNINGS) $(CFLAGS) -DCONTEND_SIM -isystem $(CUDA_INCLUDE)

.PHONY: contend-sim
contend-sim: sim $(BUILD)/contend/contend $(BUILD)/contend/contend.shared

$(BUILD)/contend/contend: $(CONTEND_PARTS) tests/gpu/contend.h $(VICTIM_HEADS) $(BUILD)/sim/libcudart_static.a
	@mkdir -p $(@D)
	$(CC) $(CONTEND_FLAGS) -o $@ $(CONTEND_PARTS) $(BUILD)/sim/libcudart_static.a -lpthread -ldl -lm

$(BUILD)/contend/contend.shared: $(CONTEND_PARTS) tests/gpu/contend.h $(VICTIM_HEADS) $(BUILD)/sim/libcudart.so.13
	@mkdir -p $(@D)
	$(CC) $(CONTEND_FLAGS) -o $@ $(CONTEND_PARTS) -L$(BUILD)/sim -lcudart -lpthread -ldl -lm
