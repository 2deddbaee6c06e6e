# victims.mk - how the victims are linked: rt_* with the static and the shared stand-in runtime and, as
# .ptds, with per-thread default streams; drv_* with -lcuda; dl_* with nothing; pre_* and bad_* are preloads,
# so_* other libraries. fuzz is tests/gpu/fuzz.cu, as C.

VICTIM_DIR   := $(BUILD)/victims
VICTIM_FLAGS := -std=gnu11 -Wall -Wextra -Werror $(CFLAGS) -isystem $(CUDA_INCLUDE)
VICTIM_RT    := $(patsubst tests/victims/%.c,%,$(wildcard tests/victims/rt_*.c))
VICTIM_DRV   := $(patsubst tests/victims/%.c,%,$(wildcard tests/victims/drv_*.c))
VICTIM_DL    := $(patsubst tests/victims/%.c,%,$(wildcard tests/victims/dl_*.c))
VICTIM_PRE   := $(patsubst tests/victims/%.c,%,$(wildcard tests/victims/pre_*.c tests/victims/bad_*.c \
                  tests/victims/so_*.c))
VICTIM_HEADS := $(wildcard tests/victims/*.h tests/runtime/*.h tests/sim/vrsim.h) $(BUILD)/flags

victims: sim $(VICTIM_RT:%=$(VICTIM_DIR)/%.static) $(VICTIM_RT:%=$(VICTIM_DIR)/%.shared) \
         $(VICTIM_RT:%=$(VICTIM_DIR)/%.ptds) $(VICTIM_DRV:%=$(VICTIM_DIR)/%) \
         $(VICTIM_DL:%=$(VICTIM_DIR)/%) $(VICTIM_PRE:%=$(VICTIM_DIR)/%.so) \
         $(VICTIM_DIR)/fuzz $(VICTIM_DIR)/fuzz.ptds

$(VICTIM_DIR)/%.static: tests/victims/%.c $(VICTIM_HEADS) $(BUILD)/sim/libcudart_static.a
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -o $@ $< $(BUILD)/sim/libcudart_static.a -lpthread -ldl

$(VICTIM_DIR)/%.ptds: tests/victims/%.c $(VICTIM_HEADS) $(BUILD)/sim/libcudart_static.a
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM -o $@ $< $(BUILD)/sim/libcudart_static.a -lpthread -ldl

$(VICTIM_DIR)/%.shared: tests/victims/%.c $(VICTIM_HEADS) $(BUILD)/sim/libcudart.so.13
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -o $@ $< -L$(BUILD)/sim -lcudart -lpthread -ldl

$(VICTIM_PRE:%=$(VICTIM_DIR)/%.so): $(VICTIM_DIR)/%.so: tests/victims/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -shared -fPIC -o $@ $< -ldl

$(VICTIM_DIR)/drv_%: tests/victims/drv_%.c $(VICTIM_HEADS) $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -o $@ $< -L$(BUILD)/sim -lcuda -lpthread -ldl

$(VICTIM_DIR)/dl_%: tests/victims/dl_%.c $(VICTIM_HEADS)
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -o $@ $< -lpthread -ldl

FUZZ := tests/gpu/fuzz.cu tests/gpu/fuzz_device.h
$(VICTIM_DIR)/fuzz: $(FUZZ) $(VICTIM_HEADS) $(BUILD)/sim/libcudart.so.13 $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -D_GNU_SOURCE -o $@ -x c $< -x none -L$(BUILD)/sim -lcudart -lcuda -lpthread -ldl

$(VICTIM_DIR)/fuzz.ptds: $(FUZZ) $(VICTIM_HEADS) $(BUILD)/sim/libcudart_static.a $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(VICTIM_FLAGS) -D_GNU_SOURCE -DCUDA_API_PER_THREAD_DEFAULT_STREAM -o $@ -x c $< -x none \
	    $(BUILD)/sim/libcudart_static.a -L$(BUILD)/sim -lcuda -lpthread -ldl
