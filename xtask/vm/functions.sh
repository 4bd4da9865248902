# Reports of the scripts of the test machines: `vm: ok NAME` or `vm: FAILED NAME: why`, which the console shows and xtask counts.

ok() { echo "vm: ok $1"; }
bad() {
    echo "vm: FAILED $1: $2"
    # Passed tests are left out.
    [ -z "$3" ] || grep -v -e '^$' -e '^test .* \.\.\. ok$' "$3" | head -n 40 | sed 's/^/    /'
}
# expect STATUS NAME COMMAND...: runs a command, whose output is shown only if its exit status is another.
expect() {
    wanted=$1 name=$2
    shift 2
    "$@" > out 2>&1
    status=$?
    if [ $status = "$wanted" ]; then ok "$name"; else bad "$name" "status $status instead of $wanted: $*" out; fi
}
# The first number behind a key of a JSON object on one line; the totals come before the tasks.
number() { sed -n "s/.*\"$2\":\\(-\\{0,1\\}[0-9]*\\).*/\\1/p" "$1" | head -n 1; }
totals() { sed 's/"tasks".*//' "$1" > totals.json; number totals.json "$2"; }
