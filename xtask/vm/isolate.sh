# Isolated CPUs on a machine with four of them, over partitions of cgroup v2. Sourced by init.sh.

last=$((cpus - 1))

# All settings that an isolation changes, the groups, and the CPUs of threads that live long.
snapshot() {
    for file in /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask \
        /sys/devices/virtual/workqueue/*/cpumask /proc/sys/kernel/watchdog_cpumask /proc/sys/vm/swappiness \
        /proc/sys/kernel/sched_rt_runtime_us /sys/kernel/mm/transparent_hugepage/enabled \
        /sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/cpuset.cpus.effective; do
        [ -r "$file" ] && echo "$file $(cat "$file")"
    done
    find /sys/fs/cgroup -type d
    for pid in $threads; do
        echo "$pid $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/$pid/status) $(tail -n 1 /proc/$pid/cgroup)"
    done
}
# Whether all is as it was: same NAME.
same() {
    snapshot > after.txt
    diff before.txt after.txt > out && [ ! -e /run/takt-isolate/journal ]
}
undone() { if same; then ok "$1: all settings are as before"; else bad "$1: all settings are as before" "they differ" out; fi; }

# A generator with a fixed seed (Park and Miller), whose number below a bound is in $r: random BOUND.
seed=20
random() {
    seed=$((seed * 16807 % 2147483647))
    r=$((seed % $1))
}

# One command, which is killed at a random instant in half of the cases, or is still under way when the next one begins.
act() {
    random 7
    case $r in
        0 | 1) set -- create --cpus 1 --name a --with swap ;;
        2 | 3) set -- create --cpus 2-$last --name b --with swap ;;
        4) set -- undo --name a ;;
        5) set -- undo --name b ;;
        6) set -- move $sleeper --name a ;;
    esac
    takt isolate "$@" > /dev/null 2>&1 &
    act=$!
    random 4
    case $r in
        0 | 1)
            random 400000
            usleep $r
            kill -9 $act 2> /dev/null
            wait $act 2> /dev/null
            ;;
        2) wait $act ;;
    esac
}
# So many sequences of commands: sequences COUNT.
sequences() {
    for sequence in $(seq "$1"); do
        for step in 1 2 3 4 5; do act; done
        wait_for_takt
        takt doctor --clean > out 2>&1 || return
        takt isolate undo --all >> out 2>&1 || return
        same || { echo "sequence $sequence" >> out; return 1; }
    done
}
wait_for_takt() { while pidof takt > /dev/null; do usleep 20000; done; }

# Which programs have left some CPUs, with how often: ran_on CPU... . A program that nothing disturbs is switched to before it has its own name. The trace
# is in the file switches.txt.
ran_on() {
    for cpu in "$@"; do grep "\[00$cpu\]" switches.txt | sed -n 's/.* prev_comm=\(.*\) prev_pid=.*/\1/p'; done | sort | uniq -c
}
# Threads of the kernel that are bound to a CPU, and idle time.
bound='swapper/|ksoftirqd/|migration/|cpuhp/|kworker/[0-9]|rcuc/|ktimers/|irq_work/|backlog_napi/|idle_inject/'

# The set of two isolated CPUs of four, with a load of 16 processes.
who_runs_where() {
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        yes > /dev/null &
        hogs="$hogs $!"
    done
    takt isolate create --cpus 0-1 --name seed || return
    # It is long, and of interest only where a step does not hold.
    takt isolate verify > verified || { cat verified; return 1; }
    cd /sys/kernel/tracing || return
    echo 16384 > buffer_size_kb
    echo > trace
    echo 1 > events/sched/sched_switch/enable
    echo 1 > tracing_on
    cd /tmp || return
    takt isolate run -- dd if=/dev/zero of=/dev/null bs=1M count=1000 2> /dev/null &
    takt isolate run -- dd if=/dev/zero of=/dev/null bs=1M count=1000 2> /dev/null || return
    wait $!
    echo 0 > /sys/kernel/tracing/tracing_on
    cat /sys/kernel/tracing/trace > switches.txt
    echo 0 > /sys/kernel/tracing/events/sched/sched_switch/enable
    takt isolate undo > /dev/null || return
    kill $hogs
    echo "on CPU 0 and 1:"
    ran_on 0 1
    echo "on the others:"
    ran_on 2 3
    ran_on 0 1 | grep -q ' dd$' || return
    ran_on 2 3 | grep -q ' yes$' || return
    ! ran_on 0 1 | grep -Ev "$bound| dd$| takt$" | grep -q .
}

schedule_yaml() {
    echo 'policy: edf'
    echo 'cpus: 1'
    echo 'tasks:'
    echo '- {name: a, period: 100ms, runtime: 30ms, init: yes, cmd: "grep Cpus_allowed_list /proc/self/status > allowed; exec takt burn --runtime 10ms"}'
}
isolated_run() {
    takt run schedule.yaml --isolate --duration 1s --mechanism v2 --json > run.json || return
    cat run.json allowed
    grep -q 'Cpus_allowed_list:.1$' allowed && grep -q 'CPU 1 was isolated for this run' run.json && [ "$(totals run.json completed)" -ge 8 ]
}
# A killed run: its watcher undoes the isolation, or `doctor --clean` where the watcher is killed, too.
killed_run() {
    takt run schedule.yaml --isolate --duration 60s --mechanism v2 > /dev/null 2>&1 &
    run=$!
    for i in $(seq 100); do
        [ -n "$(find /sys/fs/cgroup/takt-isolate-* -name 'takt-*' 2> /dev/null)" ] && break
        usleep 100000
    done
    usleep 500000
    if [ "$1" = alone ]; then kill -9 $run; else kill -9 $(pidof takt); fi
    wait $run 2> /dev/null
    if [ "$1" = alone ]; then wait_for_takt; else usleep 200000; takt doctor --clean || return; fi
}
as_user() { su user -c "$*"; }

# The first CPU set and the end of the last one make the kernel patch its code. Emulated CPUs in parallel do not survive that many times, so one set stays.
mkdir /sys/fs/cgroup/other
sleep 100000 &
sleeper=$!
# Workers of the kernel come and go.
threads=$(for dir in /proc/[0-9]*; do grep -q '^kworker' $dir/comm || basename $dir; done | grep -v "^$$\$")
mkdir -p /run
usleep 300000
threads=$(for pid in $threads; do [ -d /proc/$pid ] && echo $pid; done)
snapshot > before.txt
echo "vm: $(wc -l < before.txt) settings are compared"
expect 0 "two of four CPUs are isolated, and have no task of the load" who_runs_where
undone "two of four CPUs"
schedule_yaml > schedule.yaml
expect 0 "takt run --isolate" isolated_run
undone "takt run --isolate"
expect 0 "takt run --isolate, killed" killed_run alone
undone "takt run --isolate, killed"
expect 0 "takt run --isolate, killed with its watcher" killed_run all
undone "takt run --isolate, killed with its watcher"
sed 's/cpus: 1/cpus: all/; s/policy: edf/policy: g-edf/' schedule.yaml > all.yaml
expect 2 "takt run --isolate without a CPU for the rest" takt run all.yaml --isolate --duration 1s
undone "takt run --isolate without a CPU for the rest"
echo 'user:x:1000:1000::/tmp:/bin/sh' >> /etc/passwd
chmod 1777 /tmp
expect 3 "another user is refused" as_user takt isolate create --cpus 1
undone "another user is refused"
expect 0 "advice" takt isolate advise --seconds 3 --rounds 3 --cpu 1 --period 2ms
undone "advice"
count=$(sed -n 's/.*takt\.sequences=\([0-9]*\).*/\1/p' /proc/cmdline)
expect 0 "${count:=10} random sequences with kills" sequences "$count"
undone "random sequences"
