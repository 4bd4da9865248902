#!/bin/busybox sh
# Process 1 of the test machine: a unified cgroup v2 tree, as most Linux machines have it, and the static takt in /bin.
# What it finds goes to the console as `vm: ok NAME` or `vm: FAILED NAME: why`; `cargo xtask vm` counts these lines.
#
# The kernel's command line says how time passes. takt.mode=exact: one CPU whose virtual time counts instructions, so
# instants are compared. takt.mode=order: two CPUs that take turns, so only order and counts are. takt.mode=multi: really
# parallel on a slow emulator, where only counts and clean ends mean something. takt.mode=power: as order, on a machine with frequencies, which has
# tests of its own. takt.mode=isolate: as multi, and only the tests of isolated CPUs. takt.mode=latency: as exact, with more
# instructions in a microsecond, and only the tests of measured lateness.

/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
echo "+cpuset +cpu" > /sys/fs/cgroup/cgroup.subtree_control
mode=$(sed -n 's/.*takt\.mode=\([a-z]*\).*/\1/p' /proc/cmdline)
cpus=$(nproc)
cd /tmp || poweroff -f

. /functions.sh
# Groups and processes of runs: there must be none between two tests.
leftovers() {
    find /sys/fs/cgroup -maxdepth 1 -name 'takt-*'
    pidof takt
}
clean_after() {
    # The watcher of a run that was killed has a second.
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ -z "$(leftovers)" ] && break
        sleep 0.1
    done
    left=$(leftovers | tr '\n' ' ')
    if [ -z "$left" ]; then ok "$1: nothing is left"; else bad "$1: nothing is left" "$left"; fi
}

tolerance=1s
[ "$mode" = exact ] && tolerance=1ms

# Simulates and runs a workload, and compares. With two emulated CPUs that take turns, one of them was once held up for more than a
# second in hundreds of runs. A difference there counts when three runs in a row differ; the attempts are reported.
workload() {
    name="$(basename "$1" .yaml) ($2)" tries=1
    [ "$mode" = order ] && tries=3
    for try in $(seq $tries); do
        : > out
        why=$(compared "$1" "$2") && break
    done
    [ -z "$why" ] || { bad "$name" "$why" out; return; }
    [ "$try" = 1 ] || name="$name, attempt $try"
    ok "$name"
}

# Says what differs, with more about it in the file `out`.
compared() {
    file=$1 mechanism=$2
    differs() { echo "$1"; exit 1; }
    takt sim "$file" --json > sim.json 2> out || differs "takt sim: $?"
    # On a machine with fewer CPUs than the file names, takt says so.
    if [ "$(totals sim.json cpus)" -gt "$cpus" ]; then
        takt run "$file" --duration 100ms --mechanism "$mechanism" > out 2>&1
        [ $? = 3 ] || differs "too few CPUs were no reason to refuse it"
        return
    fi
    length=$(totals sim.json duration_ns)
    [ "$length" -ge 100000000 ] || length=100000000
    takt sim "$file" --json --duration "${length}ns" --trace sim.jsonl > sim.json 2> out || differs "takt sim: $?"
    takt run "$file" --json --duration "${length}ns" --mechanism "$mechanism" --trace run.jsonl > run.json 2> out ||
        differs "takt run: $?"
    refused=$(sed -n 's/.*"refused":\([0-9]*\).*/\1/p' run.json)
    [ "$refused" = 0 ] || differs "the kernel refused $refused stops or starts"
    # What has run up to a job's end depends on the process where it says itself that it is done; a plan of windows and
    # budgets alone is kept to the letter. Two CPUs that take turns are late by up to some 10 ms, which is more than whole
    # windows of the file with microseconds.
    if grep -q 'on_exit:' "$file"; then
        : # Simulated processes do not end.
    elif grep -Eq 'policy:|init: yes|--runtime|takt done' "$file"; then
        simulated=$(totals sim.json activations) run=$(totals run.json activations)
        [ "$simulated" = "$run" ] || differs "$simulated activations in the simulation, $run in the run"
        # A job of a table without a policy is what a signal ends, and when that comes depends on the process.
        if grep -q 'policy:' "$file"; then
            simulated=$(totals sim.json released) run=$(totals run.json released)
            [ "$simulated" = "$run" ] || differs "$simulated jobs in the simulation, $run in the run"
        fi
    elif [ "$mode" = exact ] || { [ "$mode" = order ] && ! grep -q '[0-9]us' "$file"; }; then
        takt trace diff sim.jsonl run.jsonl --tolerance $tolerance > out 2>&1 ||
            differs "the run differs from the simulation"
    fi
    if [ "$mode" != multi ]; then
        takt trace check run.jsonl "$file" --tolerance $tolerance > out 2>&1 || differs "its trace breaks a rule"
    fi
}

# Runs a workload, and compares its trace with what the kernel saw: account FILE TOLERANCE.
account() {
    echo > $tracing/trace
    echo 1 > $tracing/tracing_on
    takt run "$1" --json --duration 400ms --mechanism v2 --trace run.jsonl > run.json || return
    echo 0 > $tracing/tracing_on
    cat $tracing/trace > switches.txt
    # The tasks of windows burn without end, those of `rm` sleep between their jobs. Without a real-time class a task
    # shares its CPU with whatever else there is, and be it takt's own start.
    busy=
    grep -q '"realtime":true' run.json && ! grep -q 'policy:' "$1" && busy=--busy
    takt trace kernel run.jsonl switches.txt --tolerance $2 $busy
}

# What the kernel says about who ran, against the trace.
ground_truth() {
    tracing=/sys/kernel/tracing
    echo 0 > $tracing/tracing_on
    echo mono > $tracing/trace_clock
    echo 16384 > $tracing/buffer_size_kb
    echo 1 > $tracing/events/sched/sched_switch/enable
    for file in $2; do
        name="kernel's account of $(basename "$file" .yaml)"
        # What else wakes up by chance can keep a process from stopping for more than the tolerance, once in a while.
        why="in three runs: takt trace kernel run.jsonl switches.txt --tolerance $1"
        for try in 1 2 3; do
            account "$file" $1 > out 2>&1 && why= && break
        done
        if [ -z "$why" ]; then ok "$name"; else bad "$name" "$why" out; fi
    done
    echo 0 > $tracing/events/sched/sched_switch/enable
}

# Ends a run by a signal, and looks at the remainders.
ends_clean() {
    signal=$1 mechanism=$2 wanted=$3
    name="a run ended by $signal ($mechanism)"
    takt run /workloads/quickstart.yaml --json --duration 60s --mechanism "$mechanism" > run.json 2> out &
    run=$!
    sleep 0.7
    [ "$(pidof gzip sha256sum | wc -w)" -gt 0 ] || bad "$name" "its processes do not run" out
    kill -"$signal" $run
    wait $run
    status=$?
    if [ $status = "$wanted" ]; then ok "$name"; else bad "$name" "status $status instead of $wanted" out; fi
    clean_after "$name"
    [ -z "$(pidof gzip sha256sum)" ] || bad "$name" "processes of the workload are left"
}

# A run of a program with two tasks meets all deadlines: threads COMMAND..., which runs takt.
threads() {
    "$@" takt run threads.yaml --duration 1s --mechanism v2 --json > run.json || return
    cat run.json
    [ "$(totals run.json met)" = 30 ] && [ "$(totals run.json missed)" = 0 ]
}
threads_yaml() {
    printf 'policy: edf\ncpus: 0\ndispatch: priority\ntasks:\n'
    echo '- {name: control, cmd: exec threads, init: yes, period: 50ms, runtime: 15ms}'
    echo '- {name: log, thread_of: control, period: 100ms, runtime: 45ms}'
}
# Runs a command in a group: within GROUP COMMAND...
within() { sh -c 'echo 0 > "/sys/fs/cgroup/$0/cgroup.procs" && exec "$@"' "$@"; }
# Runs a command as a user with a group, a real-time class and locked memory: as_user COMMAND...
as_user() { (echo 0 > /sys/fs/cgroup/user/cgroup.procs && ulimit -r 99 && ulimit -l unlimited && su user -c "$*"); }
# A killed run, whose watcher is killed with it, leaves its groups and the controller of a delegated group to `doctor --clean`.
killed_in_a_group() {
    within delegated takt run threads.yaml --duration 60s --mechanism v2 &
    sleep 1
    [ "$(cat /sys/fs/cgroup/delegated/cgroup.subtree_control)" = cpuset ] || return
    kill -KILL $(cat /sys/fs/cgroup/delegated/supervisor-*/cgroup.procs)
    sleep 0.3
    takt doctor --clean || return
    left=$(find /sys/fs/cgroup/delegated -mindepth 1 -type d; cat /sys/fs/cgroup/delegated/cgroup.subtree_control; pidof takt threads)
    echo "left: $left"
    [ -z "$left" ]
}

# A schedule on CPU 1 alone: its process and the scheduler lose their CPU for a second. offline MECHANISM
offline() {
    name="a CPU that goes offline ($1)"
    printf 'policy: edf\ncpus: 1\ntasks:\n- {name: a, period: 50ms, runtime: 10ms, init: yes, cmd: exec takt burn --runtime 4ms}\n' > offline.yaml
    takt run offline.yaml --json --duration 3s --mechanism "$1" --trace run.jsonl > run.json 2> out &
    run=$!
    sleep 1
    echo 0 > /sys/devices/system/cpu/cpu1/online || { bad "$name" "the CPU cannot be switched off"; return; }
    sleep 0.7
    echo 1 > /sys/devices/system/cpu/cpu1/online
    sleep 0.5
    for pid in $(pidof takt); do
        grep -q TAKT_RUN=$run- /proc/$pid/environ 2> /dev/null && grep -q burn /proc/$pid/cmdline && allowed=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/$pid/status)
    done
    wait $run
    status=$?
    cat run.json >> out
    [ $status = 0 ] || { bad "$name" "status $status" out; return; }
    [ "$(grep -c 'warning: CPU 1 went offline\|warning: CPU 1 is online again' out)" = 2 ] || { bad "$name" "no warnings" out; return; }
    grep -q 'CPU 1 of the schedule was offline during the run' run.json || { bad "$name" "no note" out; return; }
    [ "$allowed" = 1 ] || { bad "$name" "its process runs on CPUs $allowed" out; return; }
    [ "$(totals run.json released)" = 60 ] && [ "$(totals run.json completed)" -ge 40 ] || { bad "$name" "jobs were lost" out; return; }
    ok "$name"
    clean_after "$name"
}

one_cpu_yaml() {
    echo 'windows: [{length: 50ms, cpu: 0, sc_processes: [{cmd: exec takt burn --runtime 5ms, init: yes, budget: 20ms}]}]'
}

# The wall clock is set an hour ahead and back during a run: no window is lost, and none comes twice.
clock_step() {
    one_cpu_yaml > one.yaml
    takt run one.yaml --json --duration 2s --mechanism v2 --trace run.jsonl > run.json &
    run=$!
    sleep 0.7
    date -s "@$(($(date +%s) + 3600))" > /dev/null
    sleep 0.7
    date -s "@$(($(date +%s) - 3600))" > /dev/null
    wait $run || return
    cat run.json
    [ "$(number run.json windows_lost)" = 0 ] && takt trace check run.jsonl one.yaml --tolerance $tolerance
}

# The machine is suspended for two seconds during a run, which are 40 windows. The schedule stands still, and loses only the windows in which
# the kernel stops and starts devices.
suspend() {
    one_cpu_yaml > one.yaml
    takt run one.yaml --json --duration 5s --mechanism "$1" --trace run.jsonl > run.json 2> warnings &
    run=$!
    # It is slow to begin here.
    sleep 4
    echo 0 > /sys/class/rtc/rtc0/wakealarm
    echo +2 > /sys/class/rtc/rtc0/wakealarm
    echo mem > /sys/power/state || return
    wait $run || return
    cat run.json warnings
    [ "$(number run.json windows_lost)" -lt 20 ] || return
    grep -q 'warning: the machine was suspended for' warnings && grep -q 'the machine was suspended once, for' run.json
}

echo "vm: Linux $(uname -r), $cpus CPUs, mode $mode"
if [ "$mode" = power ]; then
    . /power.sh
    echo "vm: end"
    poweroff -f
fi
if [ "$mode" = isolate ]; then
    . /isolate.sh
    echo "vm: end"
    poweroff -f
fi
if [ "$mode" = latency ]; then
    . /latency.sh
    echo "vm: end"
    poweroff -f
fi
expect 0 doctor takt doctor
expect 0 "doctor --json" takt doctor --json
expect 0 "ends of jobs can be observed" sh -c "takt doctor | grep '^ok *tracepoints'"
for mechanism in v2 signal; do
    for file in /workloads/*.yaml /workloads/features/*.yaml; do
        # One without commands is only for the simulator.
        grep -q 'cmd:' "$file" || continue
        case "$file" in
            # The kernel's classes are not simulated, no source has events here, and an emulated processor is late for `on_miss: stop`.
            */class.yaml | */event.yaml | */reactions.yaml) continue ;;
            # Its program is one of the tests over real processes.
            */threads.yaml) continue ;;
            # This machine has no frequencies; power.sh has one that does.
            */power.yaml | */skip-best-effort.yaml) continue ;;
            # PREEMPT_RT gives processes no real-time class unless the file insists.
            */dispatch-priority.yaml) ! uname -v | grep -q PREEMPT_RT || continue ;;
        esac
        workload "$file" $mechanism
    done
    clean_after "workloads ($mechanism)"
    if [ "$cpus" -gt 1 ]; then
        ends_clean TERM $mechanism 0
        ends_clean KILL $mechanism 137
    fi
done
# Threads are dispatched by priority, for which PREEMPT_RT gives no real-time class.
if [ "$mode" = exact ] && ! grep -q PREEMPT_RT /proc/version; then
    threads_yaml > threads.yaml
    mkdir /sys/fs/cgroup/delegated /sys/fs/cgroup/user
    echo 'user:x:1000:1000::/tmp:/bin/sh' >> /etc/passwd
    for file in . cgroup.procs cgroup.threads cgroup.subtree_control; do chown user /sys/fs/cgroup/user/$file; done
    chmod 1777 /tmp
    expect 0 "threads in the root of the tree" threads
    expect 0 "threads in a delegated group" threads within delegated
    expect 0 "threads in a delegated group: doctor --clean after a kill" killed_in_a_group
    # Debian's kernel lets no user measure.
    paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
    echo 3 > /proc/sys/kernel/perf_event_paranoid
    expect 3 "threads without a right to measure" as_user takt run threads.yaml --duration 100ms
    echo 1 > /proc/sys/kernel/perf_event_paranoid
    expect 0 "threads of a user" threads as_user
    echo "$paranoid" > /proc/sys/kernel/perf_event_paranoid
    clean_after threads
fi
if [ "$mode" = order ]; then
    for mechanism in v2 signal; do offline $mechanism; done
fi
if [ "$mode" = exact ]; then
    expect 0 "a step of the wall clock" clock_step
fi
# The clock of the host wakes the machine, since the virtual one stands still with it.
if [ "$mode" = multi ]; then
    for mechanism in v2 signal; do expect 0 "suspend and resume ($mechanism)" suspend $mechanism; done
    clean_after "suspend and resume"
fi
# The hard CBS against the kernel's. Virtual time has no noise; the rest is the cost of a wake-up, up to ten of them in a pattern.
# What else wakes up by chance makes the kernel look at a budget early, so one round that differs is judged by the median of three.
hard_cbs() {
    takt bench deadline --rounds 1 --strict --tolerance 300us > /dev/null ||
        takt bench deadline --rounds 3 --strict --tolerance 300us
}

# U = 0.85 on one CPU for 30 s. Nothing else takes virtual time, so no job is late.
periodic_set() {
    {
        printf 'policy: p-edf\ncpus: 0\nrealtime: yes\ntasks:\n'
        for task in 10:2000 20:4000 40:7000 50:8000 100:11500; do
            period=${task%:*}ms runtime=${task#*:}us
            echo "- {name: t$period, period: $period, runtime: $runtime, init: yes, cmd: exec takt burn --runtime $runtime}"
        done
    } > periodic.yaml
    takt run periodic.yaml --duration 30s --mechanism v2 --json > run.json || return
    cat run.json
    [ "$(totals run.json released)" -ge 6150 ] && [ "$(totals run.json missed)" = 0 ]
}

if [ "$mode" = exact ]; then
    if ! grep -q PREEMPT_RT /proc/version; then expect 0 "a periodic set misses no deadline" periodic_set; fi
    expect 0 "the hard CBS and SCHED_DEADLINE" hard_cbs
    # Without its timer for the ends of budgets, the kernel notices them at its tick.
    if mount -t debugfs debugfs /sys/kernel/debug && echo NO_HRTICK_DL > /sys/kernel/debug/sched/features; then
        expect 0 "the hard CBS and SCHED_DEADLINE by the tick" hard_cbs
        echo HRTICK_DL > /sys/kernel/debug/sched/features
    else
        bad "the hard CBS and SCHED_DEADLINE by the tick" "the kernel's features cannot be changed"
    fi
    # Processes of a real-time class fill the CPU there, which a PREEMPT_RT kernel does not survive.
    if ! grep -q PREEMPT_RT /proc/version; then
        TAKT_OUTCOMES=v2 TAKT_PROGRAM=/bin/takt /outcomes/outcomes --test-threads 1 > outcomes.txt 2>&1
        status=$?
        name=$(sed -n 's/.*\(outcomes on .*\)/\1/p' outcomes.txt)
        if [ $status = 0 ]; then ok "$name"; else bad "outcomes equal the simulation" "status $status" outcomes.txt; fi
        clean_after "outcomes"
    fi
    # A process is not frozen within execve, which takes more than the tolerance here: with `init: yes` it comes before the schedule.
    ground_truth 1ms "/workloads/features/sc-budget.yaml /workloads/features/rm.yaml"
else
    # A process can be handed a CPU whose turn is over; 22 ms until it ran were seen.
    [ "$mode" = order ] && ground_truth 40ms "/workloads/demos-example.yaml /workloads/features/two-sc-slices.yaml"
    for test in /tests/*; do
        expect 0 "test $(basename "$test")" "$test"
    done
fi
echo "vm: end"
poweroff -f
