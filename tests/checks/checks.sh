# checks.sh - sourced by each check: says how one thing went, and counts.
#
# ok NAME / fail NAME WHY / skip NAME WHY; `finish` prints "N passed, N failed, N skipped" and sets the
# exit code.
set -u
cd "$(dirname "$0")/../.."
BUILD=${BUILD-build}
case $BUILD in
/*) LIBRARY=$BUILD/libvramalloc.so ;;
*) LIBRARY=$PWD/$BUILD/libvramalloc.so ;;
esac
passed=0 failed=0 skipped=0
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
case $LIBRARY in
*[\ :]*) # which LD_PRELOAD takes for separators
    ln -s "$LIBRARY" "$SCRATCH/libvramalloc.so"
    LIBRARY=$SCRATCH/libvramalloc.so
    ;;
esac
ok() { echo "ok    $1"; passed=$((passed + 1)); }
fail() { echo "FAIL  $1: $2"; failed=$((failed + 1)); }
skip() { echo "skip  $1: $2"; skipped=$((skipped + 1)); }
# check NAME WHY COMMAND...: ok if the command succeeds
check() {
    name=$1 why=$2
    shift 2
    if "$@" >"$SCRATCH/out" 2>&1; then ok "$name"; else fail "$name" "$why $(head -c 400 "$SCRATCH/out")"; fi
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
}
