#!/bin/sh
# run.sh [SHIM] - binds NVIDIA's real runtime, static and shared, to the simulated driver, as far as
# cudaDriverGetVersion, and checks which functions it received.
#
#   SHIM       the preload library; without it only the simulator's own answers are checked
#   BUILD      build folder (build); its sim/libcuda.so.1 must exist
#   CUDA_HOME  where lib64/ or lib/ holds libcudart_static.a and libcudart.so.13 (/usr/local/cuda)
#
# Checked for both kinds, with a working driver, with one that has no device, with one that hands out
# other addresses than dlsym, and with one that lacks cuGetProcAddress_v2:
#   - the runtime answers cudaDriverGetVersion with success and the driver's version;
#   - it made all its requests (440 and 74 of them per-thread for runtime 13.0);
#   - a function that the shim exports was received from the shim, every other from the driver.
# And the stand-in runtime, bound in the same way, asks for nothing that the real one does not ask for.
set -eu

shim=${1:-}
build=${BUILD:-build}
here=$(dirname "$0")
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    echo "binding: FAILED: $*"
    failures=$((failures + 1))
}

library_folder() {
    for folder in "$cuda/lib64" "$cuda/lib" "$cuda/targets/$(uname -m)-linux/lib"; do
        if [ -e "$folder/$1" ]; then
            echo "$folder"
            return
        fi
    done
}

compile() { # KIND FOLDER
    case $1 in
    static) set -- "$1" "$2/libcudart_static.a" -lpthread -ldl -lrt ;;
    shared) set -- "$1" "$2/libcudart.so.13" "-Wl,-rpath,$2" ;;
    esac
    kind=$1
    shift
    ${CC:-cc} -std=gnu11 -O1 -o "$work/version_$kind" "$here/version.c" "$@"
}

run_version() { # KIND PRELOADS VARIABLES...; leaves $work/out, audit, lookups
    kind=$1
    preload=$2
    shift 2
    rm -f "$work/audit" "$work/lookups"
    if ! env "$@" VRAMALLOC_REPORT=off AUDIT_LOG="$work/audit" VRSIM_LOOKUPS="$work/lookups" \
        LD_LIBRARY_PATH="$work/driver" LD_PRELOAD="$work/audit.so $preload" \
        timeout 30 "$work/version_$kind" >"$work/out" 2>"$work/err"; then
        fail "$kind ($*): the program failed: $(cat "$work/err")"
        return 1
    fi
}

# Exact symbol of every request, by the simulator's own record without any shim.
expected_objects() { # KIND WAY
    if [ "$2" = dlsym ]; then
        awk -v hooked="$work/hooked" -v shim="$shim_name" '
            BEGIN { while ((getline name < hooked) > 0) is_hook[name] = 1 }
            $2 == -1 { name = $1; gsub(/"/, "", name)
                       print $1, $2, $3, $4 == "none" ? "none" : name in is_hook ? shim : $4 }' \
            "$work/audit.native"
        return
    fi
    awk -v hooked="$work/hooked" -v shim="$shim_name" '
        BEGIN { while ((getline name < hooked) > 0) is_hook[name] = 1 }
        { print $1, $2, $3, $5 == "none" ? "none" : $5 in is_hook ? shim : "libcuda.so.1" }' \
        "$work/lookups.native"
}

check_counts() { # KIND
    requests=$(wc -l <"$work/lookups")
    thread=$(awk '$3 == 2' "$work/lookups" | wc -l)
    case $(readlink -f "$shared_folder/libcudart.so.13") in
    *libcudart.so.13.0.*)
        [ "$requests $thread" = "440 74" ] ||
            fail "$1: $requests requests, $thread per-thread; expected 440 and 74" ;;
    *)
        [ "$requests" -gt 300 ] || fail "$1: only $requests requests" ;;
    esac
}

check_one() { # KIND WAY VARIABLES...
    kind=$1
    way=$2
    shift 2
    run_version "$kind" "" "$@" || return 0
    [ "$(cat "$work/out")" = "0 13000" ] || fail "$kind $way: answered $(cat "$work/out")"
    cp "$work/audit" "$work/audit.native"
    if [ "$way" != dlsym ]; then
        check_counts "$kind"
        cp "$work/lookups" "$work/lookups.native"
    fi
    if [ -n "$shim" ]; then
        run_version "$kind" "$shim" "$@" || return 0
        [ "$(cat "$work/out")" = "0 13000" ] || fail "$kind $way, shim: answered $(cat "$work/out")"
    fi
    expected_objects "$kind" "$way" | sort >"$work/expected"
    if [ "$way" = dlsym ]; then
        sort "$work/audit" >"$work/received"
    else
        grep -v ' -1 0 ' "$work/audit" | sort >"$work/received"
    fi
    if ! diff "$work/expected" "$work/received" >"$work/difference"; then
        fail "$kind $way: received (>) differs from expected (<):"
        head -20 "$work/difference"
    fi
    ours=$(grep -c " $shim_name\$" "$work/received" || true)
    [ -z "$shim" ] || [ "$ours" -gt 0 ] || fail "$kind $way: nothing received from the shim"
    echo "binding: $kind, $way: $(wc -l <"$work/received") look-ups, $ours from the shim"
}

# The real runtime's requests are still in lookups.native.
check_stand_in() {
    stand_in=$build/sim/libcudart_static.a
    if [ ! -e "$stand_in" ]; then
        echo "binding: skipped: no stand-in runtime under $build/sim"
        return
    fi
    ${CC:-cc} -std=gnu11 -O1 -o "$work/version_stand_in" "$here/version.c" "$stand_in" -lpthread -ldl
    run_version stand_in "" VRSIM_CUINIT_RESULT=0 || return 0
    awk '{ print $1, $2, $3 }' "$work/lookups.native" | sort -u >"$work/real"
    awk '{ print $1, $2, $3 }' "$work/lookups" | sort -u >"$work/stand_in"
    comm -13 "$work/real" "$work/stand_in" >"$work/difference"
    if [ -s "$work/difference" ]; then
        fail "stand-in: asks for what the real one does not:"
        cat "$work/difference"
    fi
    echo "binding: stand-in: $(wc -l <"$work/stand_in") requests"
}

static_folder=$(library_folder libcudart_static.a)
shared_folder=$(library_folder libcudart.so.13)
if [ -z "$static_folder" ] || [ -z "$shared_folder" ]; then
    echo "binding: skipped: no libcudart 13 under $cuda"
    exit 0
fi

mkdir "$work/driver"
ln -s "$(readlink -f "$build/sim/libcuda.so.1")" "$work/driver/libcuda.so.1"
${CC:-cc} -std=gnu11 -O2 -fPIC -shared -o "$work/audit.so" "$here/audit.c" -ldl
shim_name=-
: >"$work/hooked"
if [ -n "$shim" ]; then
    shim=$(readlink -f "$shim")
    shim_name=$(basename "$shim")
    nm -D --defined-only "$shim" | awk '{ sub(/@.*/, "", $3); print $3 }' >"$work/hooked"
fi

for kind in static shared; do
    if [ "$kind" = static ]; then compile static "$static_folder"; else compile shared "$shared_folder"; fi
    check_one "$kind" request VRSIM_CUINIT_RESULT=0
    check_one "$kind" no-device VRSIM_CUINIT_RESULT=100
    check_one "$kind" thunks VRSIM_PROC_THUNKS=1
    check_one "$kind" dlsym VRSIM_NO=cuGetProcAddress_v2
done
check_stand_in
[ "$failures" -eq 0 ] && echo "binding: ok"
exit "$failures"
