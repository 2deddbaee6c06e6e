# limits.sh - sourced by the scripts that run tests (bash). The limits are guards against hangs alone, wide enough
# for a machine that is many times slower than those at hand.
HANG=1800  # a unit or a check
BUILD_HANG=3600

# limited SECONDS COMMAND...: its exit code. A command that runs longer is ended: 124, and $late says so (else it is
# empty). 0 SECONDS: as long as it takes, for what guards its own parts.
limited() {
    local limit=$1 from=$SECONDS code
    shift
    late=
    timeout -k 10 "$limit" "$@"
    code=$?
    if [ "$limit" -gt 0 ] && [ $((SECONDS - from)) -ge "$limit" ]; then
        late="ran longer than $limit s: taken for a hang"
        code=124
    fi
    return $code
}
