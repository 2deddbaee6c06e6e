# differential.mk - the differential test: a runtime API program, linked three ways, and a driver API program.

DIFF_DIR     := $(BUILD)/differential
DIFF_DRIVER  := $(addprefix tests/differential/,differential.c $(notdir $(wildcard tests/differential/driver_*.c)))
DIFF_RUNTIME := $(DIFF_DRIVER) $(wildcard tests/differential/runtime_*.c)
DIFF_HEADS   := $(wildcard tests/differential/*.h tests/differential/*.def) tests/runtime/cuda_runtime_min.h $(BUILD)/flags
DIFF_FLAGS   := $(VICTIM_FLAGS) -fPIE

differential: sim $(addprefix $(DIFF_DIR)/,driver static shared ptds)

$(DIFF_DIR)/driver: $(DIFF_DRIVER) $(DIFF_HEADS) $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(DIFF_FLAGS) -pie -o $@ $(DIFF_DRIVER) -L$(BUILD)/sim -lcuda -lpthread -ldl

$(DIFF_DIR)/static: $(DIFF_RUNTIME) $(DIFF_HEADS) $(BUILD)/sim/libcudart_static.a
	@mkdir -p $(@D)
	$(CC) $(DIFF_FLAGS) -DWITH_RUNTIME -pie -o $@ $(DIFF_RUNTIME) $(BUILD)/sim/libcudart_static.a -lpthread -ldl

$(DIFF_DIR)/ptds: $(DIFF_RUNTIME) $(DIFF_HEADS) $(BUILD)/sim/libcudart_static.a
	@mkdir -p $(@D)
	$(CC) $(DIFF_FLAGS) -DWITH_RUNTIME -DCUDA_API_PER_THREAD_DEFAULT_STREAM -pie -o $@ $(DIFF_RUNTIME) \
	    $(BUILD)/sim/libcudart_static.a -lpthread -ldl

$(DIFF_DIR)/shared: $(DIFF_RUNTIME) $(DIFF_HEADS) $(BUILD)/sim/libcudart.so.13
	@mkdir -p $(@D)
	$(CC) $(DIFF_FLAGS) -DWITH_RUNTIME -pie -o $@ $(DIFF_RUNTIME) -L$(BUILD)/sim -lcudart -lpthread -ldl
