# Power management over the kernel's own driver (acpi-cpufreq), on the test machine with frequencies. `init.sh` reads this.

freqs=/sys/devices/system/cpu/cpufreq
# All settings that a run may change.
settings() { grep . $freqs/policy*/scaling_governor $freqs/policy*/scaling_m??_freq; }
settings_are_back() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        settings > now.txt
        cmp -s before.txt now.txt && break
        sleep 0.1
    done
    left=$(cat /run/takt-isolate/journal 2> /dev/null)
    if cmp -s before.txt now.txt && [ -z "$left" ]; then ok "$1: all is restored"; else
        diff before.txt now.txt > out
        bad "$1: all is restored" "$left" out
    fi
}

# Four windows on two CPUs. Processes change within the first half of a window. Nothing uses a CPU, so that they follow virtual time closely.
power_yaml() {
    cat <<'END'
partitions:
- {name: control, processes: [{cmd: exec sleep 1000, budget: 60ms, frequency: 1500}]}
- {name: video, processes: [{cmd: exec sleep 1000, budget: 80ms, frequency: 1000}, {cmd: exec sleep 1000, budget: 500ms, frequency: 2000}]}
- {name: log, processes: [{cmd: exec sleep 1000, budget: 900ms, frequency: 500}]}
windows:
- {length: 400ms, slices: [{cpu: 0, sc_partition: control, be_partition: log, frequency: 1500}, {cpu: 1, be_partition: video, frequency: 500}]}
- {length: 300ms, slices: [{cpu: 0, be_partition: video, frequency: 1000}]}
- {length: 400ms, slices: [{cpu: 1, sc_partition: control, frequency: 2000}]}
- {length: 300ms, slices: [{cpu: 0-1, sc_partition: log, frequency: 1000}]}
platform:
  clusters:
END
    for cpu in 0 1; do
        echo "  - {name: policy$cpu, cpus: $cpu, capacitance: 100pF, frequencies: [{mhz: 500, voltage: 0.8V}, {mhz: 1000, voltage: 0.9V}, {mhz: 1500, voltage: 1V}, {mhz: 2000, voltage: 1.1V}]}"
    done
}

# Reads the frequencies of both domains again and again, with the time: seconds since the boot, as the monotonic clock has them.
poll() {
    while :; do
        read -r now _ < /proc/uptime
        read -r first < $freqs/policy0/scaling_cur_freq
        read -r second < $freqs/policy1/scaling_cur_freq
        echo "$now $first $second"
        usleep 4000
    done
}

# The frequencies of a run at the ends of its windows, against those of the simulation: compare SIM RUN POLLS. A reading counts that is at most 60 ms before the
# end, in which no request falls.
compare() {
    awk '
        function field(name,   text) {
            if (!match($0, "\"" name "\":-?[0-9]+")) return ""
            text = substr($0, RSTART, RLENGTH)
            sub(/.*:/, "", text)
            return text + 0
        }
        FILENAME == ARGV[1] && /"type":"frequency"/ { n++; at[n] = field("at") / 1e9; domain[n] = field("domain"); khz[n] = field("khz") }
        FILENAME == ARGV[2] && /"start_monotonic_ns"/ { start = field("start_monotonic_ns") / 1e9 }
        FILENAME == ARGV[3] { m++; time[m] = $1 - start; first[m] = $2; second[m] = $3 }
        END {
            if (!start) { print "no start"; exit 1 }
            split("0.4 0.7 1.1 1.4", ends)
            for (frame = 0; frame < 2; frame++) for (w = 1; w <= 4; w++) {
                end = frame * 1.4 + ends[w]
                seen0 = seen1 = ""
                for (i = 1; i <= m; i++) if (time[i] > end - 0.06 && time[i] < end - 0.011) { seen0 = first[i]; seen1 = second[i] }
                want0 = want1 = ""
                for (i = 1; i <= n; i++) if (at[i] < end - 0.001) { if (domain[i] == 0) want0 = khz[i]; else want1 = khz[i] }
                if (want0 == "") want0 = seen0
                if (want1 == "") want1 = seen1
                checked += seen0 != ""
                if (seen0 != "" && (seen0 != want0 || seen1 != want1)) {
                    print "at the end of window " w " of frame " frame ": " seen0 " " seen1 " instead of " want0 " " want1
                    failed = 1
                }
            }
            # The emulated CPUs take turns, so that a few ends may go unseen.
            print checked " ends of windows"
            exit failed || checked < 6
        }' "$1" "$2" "$3"
}

# A run with a policy has the frequencies of its simulation: policy NAME.
policy() {
    takt sim power.yaml --power "$1" --duration 2800ms --trace sim.jsonl || return
    poll > polls.txt &
    poller=$!
    takt run power.yaml --power "$1" --duration 2800ms --mechanism v2 --json --trace run.jsonl > run.json
    status=$?
    kill $poller
    cat run.json
    [ $status = 0 ] || return
    compare sim.jsonl run.jsonl polls.txt || return
    # The run's own account: all was written, and what the kernel counted was seen.
    grep -q '"refused":0,"\(requested\|clamped\)"' run.json
}

# Waits until the run has set its frequency.
is_set() {
    for _ in $(seq 50); do
        [ "$(cat $freqs/policy1/scaling_governor) $(cat $freqs/policy1/scaling_cur_freq)" = "userspace 500000" ] && return
        sleep 0.1
    done
    return 1
}

# As ends_clean, for the settings: ends SIGNAL STATUS.
ends() {
    takt run power.yaml --power low --duration 60s --mechanism v2 > out 2>&1 &
    run=$!
    is_set || bad "a run ended by $1 (power)" "it has set no frequency" out
    kill -"$1" $run
    wait $run
    status=$?
    if [ $status = "$2" ]; then ok "a run ended by $1 (power)"; else bad "a run ended by $1 (power)" "status $status" out; fi
    settings_are_back "a run ended by $1 (power)"
}

# A run that is killed with its watcher leaves its settings to `doctor --clean`.
killed_with_its_watcher() {
    takt run power.yaml --power low --duration 60s --mechanism v2 &
    run=$!
    is_set || return
    for pid in $(pidof takt); do
        grep -q __watch /proc/$pid/cmdline && kill -KILL $pid
    done
    kill -KILL $run
    sleep 0.3
    settings > now.txt
    cmp -s before.txt now.txt && echo "nothing was left" && return 1
    takt doctor --clean | tee cleaned.txt
    grep -q 'restored [1-9]' cleaned.txt
}

# A second run on a frequency domain is refused.
shared_domain() {
    takt run power.yaml --power low --duration 60s --mechanism v2 > first.txt 2>&1 &
    run=$!
    is_set || return
    takt run power.yaml --power high --duration 100ms --mechanism v2 --share-cpus
    second=$?
    takt demos -p high -t 100 -c power.yaml --mechanism v2
    third=$?
    kill -TERM $run
    wait $run
    echo "status $second and $third"
    [ $second = 3 ] && [ $third = 1 ]
}

# An isolation and a run have the same frequency, one after the other: owners FIRST_TO_END. The first value comes back when the second has ended.
owners() {
    without=
    for step in exclusive domain tasks kernel-threads workqueues interrupts watchdog; do without="$without --without $step"; done
    takt isolate create --cpus 1 --name fast $without --with frequency || return
    [ "$(cat $freqs/policy1/scaling_min_freq)" = 2000000 ] || return
    takt run power.yaml --power low --duration 60s --mechanism v2 > first.txt 2>&1 &
    run=$!
    is_set || return
    if [ "$1" = isolation ]; then
        takt isolate undo --name fast || return
        [ "$(cat $freqs/policy1/scaling_cur_freq)" = 500000 ] || return
        kill -TERM $run
        wait $run
    else
        kill -TERM $run
        wait $run
        [ "$(cat $freqs/policy1/scaling_min_freq)" = 2000000 ] || return
        takt isolate verify || return
        takt isolate undo --name fast
    fi
}

power_yaml > power.yaml
settings > before.txt 2>/dev/null
expect 3 "power: a machine without frequencies" takt run power.yaml --power low --duration 100ms
expect 1 "power: demos on a machine without frequencies" takt demos -p low -t 100 -c power.yaml
insmod /modules/acpi-cpufreq.ko || bad "acpi-cpufreq" "it cannot be loaded"
settings > before.txt
expect 0 "doctor names the driver" sh -c "takt doctor | grep 'frequency.*acpi-cpufreq.*by limits'"
# Without the governor `userspace`: by equal limits.
for policy in minbe per_slice; do
    expect 0 "power: $policy by limits" policy $policy
    settings_are_back "$policy by limits"
done
insmod /modules/cpufreq_userspace.ko || bad "cpufreq_userspace" "it cannot be loaded"
expect 0 "doctor names the governor" sh -c "takt doctor | grep 'frequency.*governor userspace'"
for policy in low high minbe per_process per_slice fixed:1500,1000 alternating:500,1000,1500,2000; do
    expect 0 "power: $policy" policy $policy
    settings_are_back "$policy"
done
ends TERM 0
ends KILL 137
expect 0 "a run killed with its watcher (power): doctor --clean" killed_with_its_watcher
settings_are_back "a run killed with its watcher (power)"
expect 0 "a frequency domain has one run" shared_domain
settings_are_back "a frequency domain has one run"
for first in isolation run; do
    expect 0 "two owners of a frequency, the $first ends first" owners $first
    settings_are_back "two owners of a frequency, the $first ends first"
done
clean_after power
