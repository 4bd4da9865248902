# Measured lateness on a machine with one CPU, whose virtual time counts instructions. Sourced by init.sh.

options=/sys/kernel/tracing/osnoise/options
period=/sys/kernel/tracing/osnoise/timerlat_period_us

# Whether the tracers and their settings are as before, no instance and no journal remain, and the tracers have started no thread.
traced_before() {
    [ ! -e $options ] || [ "$(cat $options $period)" = "$osnoise_before" ] || return
    [ -z "$(ls /sys/kernel/tracing/instances)" ] || return
    [ ! -e /run/takt-isolate/journal ] || return
    ! grep -q '^osnoise/\|^timerlat/' /proc/[0-9]*/comm
}
# The tracer names what has taken the CPU, or the report says why there is none.
noise_is_named() {
    takt latency --scenario idle-fifo --samples 200 --rounds 2 --explain=2 > report.txt || return
    cat report.txt
    if [ -e $options ]; then
        grep -q 'note: osnoise: beside the gap detector, CPU 0 was taken by .*interrupt `local_timer`' report.txt || return
        # More than that was not recorded, and a time since boot is no noise.
        ! grep -q 'the longest [0-9]\{7,\}' report.txt || return
    else
        grep -q 'note: the tracer `osnoise` is not used: the kernel has no tracer `osnoise`' report.txt || return
    fi
    cat $options
    traced_before
}
# The stages of a wake-up by the kernel's tracer, in their order. The period of this run is another one than the tracer's.
stages_are_measured() {
    takt latency --scenario idle-fifo --period 2ms --samples 200 --rounds 2 --explain=1 > report.txt || return
    cat report.txt
    if [ -e /sys/kernel/tracing/osnoise/per_cpu/cpu0/timerlat_fd ]; then
        grep -q 'note: timerlat: 20[0-9] wake-ups of SCHED_FIFO 50 on CPU 0' report.txt || return
        sed -n 's/^note: timerlat.* timer interrupt p50 \([0-9.]*\)us,.* in the kernel p50 \([0-9.]*\)us,.* user space p50 \([0-9.]*\)us,.*/\1 \2 \3/p' report.txt > stages.txt
        awk '$1 > 0 && $1 < $2 && $2 < $3 { good = 1 } END { exit !good }' stages.txt || return
    elif [ -e $options ]; then
        grep -q 'note: the tracer `timerlat` is not used: the kernel has no ' report.txt || return
    fi
    traced_before
}
# A killed experiment, whose watcher is killed with it.
killed_while_tracing() {
    takt latency --scenario idle --samples 60000 --explain=2 > /dev/null 2>&1 &
    experiment=$!
    for i in $(seq 100); do
        [ -n "$(ls /sys/kernel/tracing/instances)" ] && [ -n "$(pidof -o $experiment takt)" ] && break
        usleep 50000
    done
    usleep 500000
    [ ! -e $options ] || grep -q NO_OSNOISE_WORKLOAD $options || { echo "the option is not changed"; return 1; }
    kill -9 $(pidof takt)
    wait $experiment 2> /dev/null
    takt doctor --clean || return
    traced_before
}
# The scenarios beside threads of interrupts. A PREEMPT_RT kernel has such threads, and another one with the parameter `threadirqs`, by which it is booted here.
beside_interrupts() {
    takt latency --scenario fifo,rt-above,rt-below --stress timers --stress-threads 2 --samples 300 --rounds 3 > report.txt
    status=$?
    cat report.txt
    [ $status = 0 ] || return
    if grep -q PREEMPT_RT /proc/version; then
        grep -q '^irq/' /proc/[0-9]*/comm || return
        grep -q ', PREEMPT_RT, ' report.txt || return
    fi
    if grep -q '^irq/' /proc/[0-9]*/comm; then
        grep -q '^rt-above  *300 ' report.txt && grep -q '^rt-below  *300 ' report.txt
    else
        [ "$(grep -c '^not measured: rt-.*: this kernel has no threads of interrupts' report.txt)" = 2 ]
    fi
}

# Threads of timers, softirqs and interrupts with their nice values, real-time priorities and policies: fields 19, 40 and 41 of proc_pid_stat(5).
classes() {
    for comm in $(grep -l '^ktimers/\|^ksoftirqd/\|^irq/' /proc/[0-9]*/comm); do
        echo "$(cat $comm) $(sed 's/.*) //' ${comm%comm}stat | cut -d ' ' -f 17,38,39)"
    done
}
# Whether one of them has the priority above the task at some instant from now on.
are_raised() {
    for i in $(seq 400); do
        classes | grep -q ' 51 1$' && return
        usleep 20000
    done
    return 1
}
# The scenario with these threads above the task. Their classes are as before, also when the experiment and its watcher are killed.
raised_threads() {
    takt latency --scenario fifo,rt-raised --stress timers --stress-threads 2 --samples 300 --rounds 3 > report.txt || return
    cat report.txt
    if ! grep -q '^irq/\|^ktimers/' /proc/[0-9]*/comm; then
        grep -q '^not measured: rt-raised: this kernel has no threads of timers or interrupts' report.txt
        return
    fi
    grep -q '^rt-raised  *300 ' report.txt && same_classes || return
    takt latency --scenario rt-raised --stress timers --stress-threads 2 --samples 20000 > /dev/null 2>&1 &
    experiment=$!
    are_raised || { echo "the threads are not raised"; classes; return 1; }
    kill -9 $(pidof takt)
    wait $experiment 2> /dev/null
    takt doctor --clean || return
    same_classes
}
same_classes() {
    classes > after.txt
    diff classes.txt after.txt && [ ! -e /run/takt-isolate/journal ]
}

[ ! -e $options ] || osnoise_before=$(cat $options $period)
classes > classes.txt
agreement="takt latency --stress-threads 2 --samples 600 --rounds 3 --check-trace"
expect 0 "lateness agrees with the kernel's trace within 1 us" $agreement --scenario idle,idle-fifo,stressed,fifo
grep "^kernel's trace" out
expect 0 "lateness by timerfd agrees with the kernel's trace within 1 us" $agreement --scenario idle-fifo,fifo --method timerfd
grep "^kernel's trace" out
expect 1 "a difference of more than 1 ns is found" $agreement=1ns --scenario idle-fifo
expect 0 "the tracer osnoise names noise" noise_is_named
grep "^note: .*osnoise" out
expect 0 "the tracer timerlat measures the stages of a wake-up" stages_are_measured
grep "^note: .*timerlat" out
expect 0 "a killed experiment with the tracer osnoise" killed_while_tracing
expect 0 "scenarios beside threads of interrupts" beside_interrupts
expect 0 "threads of timers and interrupts are raised and restored" raised_threads
grep "^fifo\|^rt-raised\|^not measured: rt-raised" out
