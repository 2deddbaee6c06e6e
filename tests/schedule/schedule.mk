# schedule.mk - the scheduler's test: the library built with points.h in front of its sources, and the program twice,
# with that library (schedule) and without (schedule-native). A library with a fault put in by tests/checks/schedule
# is linked from the same objects, but for one.

SCHED        := $(BUILD)/sched
SCHED_FLAGS  := $(BASE) -O1 -g -fPIC -ftls-model=initial-exec -isystem $(CUDA_INCLUDE)
SCHED_INSIDE := $(patsubst %.c,$(SCHED)/obj/%.o,$(wildcard pool/*.c shim/*.c) tests/schedule/inside.c)
SCHED_OTHERS := $(BUILD)/obj/shim/dlsym_$(ARCH).o
SCHED_SELF   := $(patsubst %,$(SCHED)/obj/tests/schedule/%.o,schedule scheduler script)

schedule: $(SCHED)/schedule $(SCHED)/schedule-native

$(SCHED)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(SCHED_FLAGS) $(if $(filter pool/% shim/%,$<),-fvisibility=hidden -include tests/schedule/points.h) -c -o $@ $<

$(SCHED)/exports.map: $(BUILD)/exports.map
	@mkdir -p $(@D)
	sed 's/^    dlsym;/&\n    schedule_inside;/' $< > $@

$(SCHED)/libvramalloc.so: $(SCHED_INSIDE) $(SCHED_OTHERS) $(SCHED)/exports.map
	$(CC) -shared -o $@ $(SCHED_INSIDE) $(SCHED_OTHERS) $(LIBC_PARTS) \
	    -Wl,--version-script=$(SCHED)/exports.map -Wl,-z,relro,-z,now,-z,nodelete

SCHED_LINK = $(CC) -rdynamic -o $@ $(SCHED_SELF) -Wl,--no-as-needed $(1) $(BUILD)/sim/libcudart_static.a -L$(BUILD)/sim -lcuda \
    -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../sim' -lpthread $(LIBC_PARTS)

$(SCHED)/schedule: $(SCHED_SELF) $(SCHED)/libvramalloc.so $(SIM_LIBRARIES)
	$(call SCHED_LINK,-L$(SCHED) -lvramalloc)

$(SCHED)/schedule-native: $(SCHED_SELF) $(SIM_LIBRARIES)
	$(call SCHED_LINK)

# FAULT=shim/x.c: the source that stands in folder N with a fault; it includes its neighbours from the real place.
$(SCHED)/faults/%/libvramalloc.so: always $(SCHED)/libvramalloc.so
	$(CC) $(SCHED_FLAGS) -w -fvisibility=hidden -include tests/schedule/points.h -iquote $(dir $(FAULT)) \
	    -c -o $(@D)/faulty.o $(@D)/$(FAULT)
	$(CC) -shared -o $@ $(@D)/faulty.o $(filter-out $(SCHED)/obj/$(FAULT:.c=.o),$(SCHED_INSIDE)) $(SCHED_OTHERS) $(LIBC_PARTS) \
	    -Wl,--version-script=$(SCHED)/exports.map -Wl,-z,relro,-z,now,-z,nodelete

-include $(shell find $(SCHED)/obj -name '*.d' 2>/dev/null)
