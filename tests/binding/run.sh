#!/bin/sh
# run.sh [SHIM] - binds NVIDIA's real runtime, static and shared, to the simulated driver, as far as
# cudaDriverGetVersion, and checks which functions it received. One line a case; the last line is
# "N passed, N failed, N skipped".
#
#   SHIM       the preload library (BUILD/libvramalloc.so); "-": only the simulator's own answers
#   BUILD      build folder (build); its sim/libcuda.so.1 must exist
#   CUDA_HOME  where lib64/ or lib/ holds libcudart_static.a and libcudart.so.13; else /usr/local/cuda
#              and build/cuda are looked at
#
# Older runtimes, one folder a version, lie in build/runtimes (scripts/setup fetches them: 11.8, 12.1, 12.4, 12.9).
#
# Checked for all, with a working driver, with one that has no device, with one that hands out
# other addresses than dlsym, and with one that lacks cuGetProcAddress, old and new:
#   - the runtime answers cudaDriverGetVersion with success and the driver's version;
#   - it made all its requests (440 and 74 of them per-thread for runtime 13.0);
#   - a function that the shim exports was received from the shim, every other from the driver.
# And the stand-in runtime, bound in the same way, asks for nothing that the real one does not ask for.
#
# The functions are those that cuGetProcAddress and dlsym returned to the runtime, seen by audit.c;
# which exact function each request means is the simulator's own record of a run without the shim.
set -eu

build=${BUILD:-build}
shim=${1:-$build/libvramalloc.so}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
skipped=0

pass() {
    passed=$((passed + 1))
    echo "ok     $*"
}

fail() {
    failed=$((failed + 1))
    echo "FAIL   $*"
}

skip() {
    skipped=$((skipped + 1))
    echo "skip   $*"
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

library_folder() { # FILE
    for root in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda "$PWD/build/cuda"; do
        for folder in "$root/lib64" "$root/lib"; do
            if [ -e "$folder/$1" ]; then
                echo "$folder"
                return
            fi
        done
    done
}

compile() { # KIND LINKED...
    kind=$1
    shift
    ${CC:-cc} -std=gnu11 -O1 -o "$work/version_$kind" "$here/version.c" "$@"
}

run_version() { # KIND PRELOADS VARIABLES...; leaves $work/out, audit, lookups
    kind=$1
    preload=$2
    shift 2
    rm -f "$work/audit" "$work/lookups"
    env "$@" VRAMALLOC_REPORT=off AUDIT_LOG="$work/audit" VRSIM_LOOKUPS="$work/lookups" \
        LD_LIBRARY_PATH="$work/driver" LD_PRELOAD="$work/audit.so $preload" \
        timeout 600 "$work/version_$kind" >"$work/out" 2>"$work/err" || {
        [ $? -ne 124 ] || echo "ran longer than 600 s: taken for a hang" >>"$work/err"
        return 1
    }
    [ "$(cat "$work/out")" = "0 13000" ]
}

# Where each answer should lie. A request means the function that the simulator recorded for it; a
# dlsym means the name itself.
expected() { # WAY
    case $1 in
    dlsym) awk '$2 == -1 { name = $1; gsub(/"/, "", name)
                           print $1, $2, $3, $4 == "none" ? "none" : name }' "$work/audit.native" ;;
    *) awk '{ print $1, $2, $3, $5 }' "$work/lookups.native" ;;
    esac | awk -v hooked="$work/hooked" -v shim="$shim_name" '
        BEGIN { while ((getline name < hooked) > 0) is_hook[name] = 1 }
        { print $1, $2, $3, $4 == "none" ? "none" : $4 in is_hook ? shim : "libcuda.so.1" }'
}

received() { # WAY
    case $1 in
    dlsym) cat "$work/audit" ;;
    *) grep -v ' -1 0 ' "$work/audit" ;;
    esac
}

counts_are_right() {
    requests=$(wc -l <"$work/lookups.native")
    thread=$(awk '$3 == 2' "$work/lookups.native" | wc -l)
    case $1:$(readlink -f "$shared_folder/libcudart.so.13") in
    shared:*libcudart.so.13.0.* | static:*libcudart.so.13.0.*) [ "$requests $thread" = "440 74" ] ;;
    *) [ "$requests" -gt 250 ] ;;
    esac
}

explain() { # what went wrong, indented
    sed 's/^/       | /' "$@" | head -20
}

check_one() { # KIND WAY VARIABLE
    label="$1 runtime, $2"
    if ! run_version "$1" "" "$3"; then
        fail "$label: alone it answered $(cat "$work/out")"
        explain "$work/err"
        return
    fi
    cp "$work/audit" "$work/audit.native"
    if [ "$2" != dlsym ]; then
        cp "$work/lookups" "$work/lookups.native"
        if ! counts_are_right "$1"; then
            fail "$label: $requests requests, $thread of them per-thread"
            return
        fi
    fi
    if [ -n "$shim" ] && ! run_version "$1" "$shim" "$3"; then
        fail "$label: with $shim_name it answered $(cat "$work/out")"
        explain "$work/err"
        return
    fi
    expected "$2" | sort >"$work/expected"
    received "$2" | sort >"$work/received"
    if ! diff "$work/expected" "$work/received" >"$work/difference"; then
        fail "$label: received (>) other functions than expected (<)"
        explain "$work/difference"
        return
    fi
    ours=$(grep -c " $shim_name\$" "$work/received" || true)
    if [ -n "$shim" ] && [ "$ours" -eq 0 ]; then
        fail "$label: nothing was received from $shim_name"
        return
    fi
    pass "$label: $(wc -l <"$work/received") look-ups, $ours answered by $shim_name"
}

check_kind() { # KIND LINKED...
    compile "$@"
    check_one "$1" "working driver" VRSIM_CUINIT_RESULT=0
    check_one "$1" "no device" VRSIM_CUINIT_RESULT=100
    check_one "$1" "other addresses" VRSIM_PROC_THUNKS=1
    check_one "$1" dlsym VRSIM_NO=cuGetProcAddress_v2,cuGetProcAddress
}

# The real runtime's requests are still in lookups.native.
check_stand_in() {
    if [ ! -e "$build/sim/libcudart_static.a" ]; then
        skip "stand-in runtime: not built"
        return
    fi
    compile stand_in "$build/sim/libcudart_static.a" -lpthread -ldl
    if ! run_version stand_in "" VRSIM_CUINIT_RESULT=0; then
        fail "stand-in runtime: answered $(cat "$work/out")"
        return
    fi
    awk '{ print $1, $2, $3 }' "$work/lookups.native" | sort -u >"$work/real"
    awk '{ print $1, $2, $3 }' "$work/lookups" | sort -u >"$work/stand_in"
    comm -13 "$work/real" "$work/stand_in" >"$work/difference"
    if [ -s "$work/difference" ]; then
        fail "stand-in runtime: asks for what the real one does not"
        explain "$work/difference"
        return
    fi
    pass "stand-in runtime: $(wc -l <"$work/stand_in") requests, each made by the real one too"
}

static_folder=$(library_folder libcudart_static.a)
shared_folder=$(library_folder libcudart.so.13)
if [ -z "$static_folder" ] || [ -z "$shared_folder" ]; then
    skip "the real runtime: no libcudart 13 here"
    finish
fi

mkdir "$work/driver"
ln -s "$(readlink -f "$build/sim/libcuda.so.1")" "$work/driver/libcuda.so.1"
${CC:-cc} -std=gnu11 -O2 -fPIC -shared -o "$work/audit.so" "$here/audit.c" -ldl
: >"$work/hooked"
if [ "$shim" = - ]; then
    shim=
    shim_name="no shim"
else
    shim=$(readlink -f "$shim")
    shim_name=$(basename "$shim")
    ln -s "$shim" "$work/$shim_name" # its own path may have a space
    shim=$work/$shim_name
    nm -D --defined-only "$shim" | awk '{ sub(/@.*/, "", $3); print $3 }' >"$work/hooked"
fi

check_kind static "$static_folder/libcudart_static.a" -lpthread -ldl -lrt
check_kind shared "$shared_folder/libcudart.so.13" "-Wl,-rpath,$shared_folder"
check_stand_in

for folder in build/runtimes/*/; do
    for library in "$folder"libcudart.so.* "$folder"libcudart_static.a; do
        [ -e "$library" ] || continue
        version=$(basename "$folder")
        case $library in
        *.a) check_kind "$version-static" "$library" -lpthread -ldl -lrt ;;
        *) check_kind "$version-shared" "$library" "-Wl,-rpath,$PWD/$folder" ;;
        esac
    done
done
[ -e build/runtimes ] || skip "older runtimes: not in build/runtimes"
finish
