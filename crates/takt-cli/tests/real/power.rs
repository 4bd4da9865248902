//! Power policies over real processes, on imitated machines: frequencies that are set and restored, temperatures that are obeyed, and refusals.

use super::control::{command, ctl};
use crate::common::{Done, Room, Running, groups, kill, pause, processes, until, watchers};
use crate::machine::on_cpus;
use rustix::process::Signal;
use takt_core::record::{Record, RecordKind};
use takt_core::time::Span;
use takt_testing::sysfs::Machine;
use takt_trace::Quantity;

const DOMAIN: &str = "sys/devices/system/cpu/cpufreq/policy0";
const ZONE: &str = "sys/class/thermal/thermal_zone0/temp";

/// A safety-critical and a best-effort process in each window, which use no CPU time.
const WINDOWS: &str = "\
partitions:
- {name: control, processes: [{cmd: exec sleep 1000, budget: 6ms}]}
- {name: log, processes: [{cmd: exec sleep 1000, budget: 8ms}]}
windows:
- {length: 20ms, slices: [{cpu: 0, sc_partition: control, be_partition: log}]}
";

/// A directory with the workload, and with a machine in its folder `m`.
fn room(make: fn(&std::path::Path) -> Machine) -> (Room, Machine) {
    let room = Room::with(WINDOWS);
    let machine = make(&room.path("m"));
    (room, machine)
}

/// The records of a trace with the engine's instants, without those at which they were carried out.
fn decisions(room: &Room, trace: &str) -> Vec<Record> {
    room.trace(trace).records.iter().map(|stamped| stamped.record).collect()
}

fn run(room: &Room, args: &[&str]) -> Done {
    room.takt(&[&["run", "w.yaml", "--sysfs-root", "m"], args].concat())
}

#[test]
fn frequencies_follow_the_windows_and_are_restored() {
    on_cpus(|| {
        for make in [Machine::acpi_cpufreq, Machine::intel_pstate, Machine::amd_pstate, Machine::imx8] {
            let (room, machine) = room(make);
            let before = machine.settings();
            let args = ["--power", "minbe", "--duration", "400ms", "--json", "--trace", "t.jsonl"];
            let report = run(&room, &args).json();
            let power = &report["power"];
            let trace = room.trace("t.jsonl");
            let frequencies: Vec<u32> = trace
                .records
                .iter()
                .filter_map(|record| match record.record.kind {
                    RecordKind::Frequency { domain: 0, khz } => Some(khz),
                    _ => None,
                })
                .collect();
            let (lowest, highest) = (frequencies.iter().min().unwrap(), frequencies.iter().max().unwrap());
            let ends = ["cpuinfo_min_freq", "cpuinfo_max_freq"].map(|name| machine.policy_file(0, name));
            assert_eq!([lowest.to_string(), highest.to_string()], ends);
            // Up and down in each window.
            assert!(
                frequencies.len() >= 20 && frequencies.windows(2).all(|pair| pair[0] != pair[1]),
                "{frequencies:?}"
            );
            assert_eq!(power["requested"], frequencies.len(), "{power}");
            assert_eq!((&power["refused"], &power["clamped"]), (&0.into(), &0.into()), "{power}");
            let [requested, written, dropped] =
                ["requested", "written", "dropped"].map(|key| power[key].as_u64().unwrap());
            assert_eq!(requested, written + dropped, "{power}");
            assert!(written >= 2, "{power}");
            assert_eq!(machine.settings(), before);
            // The policy asks for no temperature, and the trace has them all the same.
            let measured = |value| RecordKind::Temperature { zone: 0, millidegrees: Some(value) };
            let first = machine.get(ZONE).parse().unwrap();
            assert!(trace.records.iter().any(|record| record.record.kind == measured(first)));
        }
    });
}

#[test]
fn settings_are_restored_however_the_run_ends() {
    on_cpus(|| {
        for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
            let (room, machine) = room(Machine::acpi_cpufreq);
            let before = machine.settings();
            let running = room.start(&["run", "w.yaml", "--sysfs-root", "m", "--power", "low"]);
            until("the frequency is set", || machine.policy_file(0, "scaling_cur_freq") == "800000");
            assert_ne!(machine.settings(), before);
            match signal {
                Signal::KILL => drop(running.kill_and_wait()),
                _ => {
                    running.signal(signal);
                    running.wait().expect(0);
                }
            }
            until("all is restored", || machine.settings() == before);
        }
        // The frequency domain of a CPU that the schedule does not use is left alone.
        let (room, machine) = room(Machine::acpi_cpufreq);
        let running = room.start(&["run", "w.yaml", "--sysfs-root", "m", "--power", "low"]);
        until("the frequency is set", || machine.policy_file(0, "scaling_cur_freq") == "800000");
        assert_eq!(machine.policy_file(1, "scaling_governor"), "schedutil");
        running.signal(Signal::TERM);
        running.wait().expect(0);
    });
}

/// The course of a temperature is obeyed as the samples say that reached the engine. A second account of the policy decides the same.
#[test]
fn best_effort_partitions_are_skipped_while_it_is_hot() {
    on_cpus(|| {
        let (room, machine) = room(Machine::acpi_cpufreq);
        let args =
            ["run", "w.yaml", "--sysfs-root", "m", "--power", "skip_be:x86_pkg_temp,60,5", "--duration", "2900ms"];
        let running = room.start(&[&args[..], &["--json", "--trace", "t.jsonl", "--record", "t.steps"]].concat());
        for (temperature, ms) in
            [("45000", 500), ("60500", 500), ("57000", 200), ("!EAGAIN", 100), ("54000", 300), ("151000", 1400)]
        {
            machine.put(ZONE, temperature);
            pause(ms);
        }
        let report = running.wait().json();
        assert_eq!(report["power"]["requested"], 0, "{report}");
        // It sets no frequency, so no governor is touched.
        assert_eq!(machine.policy_file(0, "scaling_governor"), "schedutil");
        let trace = room.trace("t.jsonl");
        let (mut hot, mut valid, mut started, mut skipped, mut bad) = (false, takt_core::time::Time::ZERO, 0, 0, 0);
        for record in trace.records.iter().map(|record| &record.record) {
            let lost = record.at - valid >= Span::from_secs(1);
            match record.kind {
                RecordKind::Temperature { millidegrees: Some(value), .. } => {
                    valid = record.at;
                    hot = if value >= 60_000 { true } else { hot && value > 55_000 };
                }
                RecordKind::Temperature { millidegrees: None, .. } => bad += 1,
                RecordKind::StartSkipped { .. } => {
                    assert!(hot || lost, "skipped at {:?}", record.at);
                    skipped += 1;
                }
                RecordKind::Start { task, .. } if task.0 == 1 => {
                    assert!(!hot && !lost, "started at {:?}", record.at);
                    started += 1;
                }
                _ => {}
            }
            hot |= lost;
        }
        assert!(started >= 10 && skipped >= 10 && bad >= 2, "{started} started, {skipped} skipped, {bad} bad");
        assert_eq!(report["power"]["zones"][0]["name"], "x86_pkg_temp");
        // The record replays to the same schedule.
        let replayed = room.takt(&[
            "sim",
            "w.yaml",
            "--replay",
            "t.steps",
            "--power",
            "skip_be:x86_pkg_temp,60,5",
            "--trace",
            "r.jsonl",
        ]);
        replayed.expect(0);
        let records = |name| room.trace(name).records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>();
        assert!(records("t.jsonl") == records("r.jsonl"), "the replay is the run");
    });
}

/// Traces of all formats have what the machine measured, and a replay of the run does without it.
#[test]
fn measured_values_are_in_all_formats() {
    on_cpus(|| {
        let (room, machine) = room(Machine::acpi_cpufreq);
        let power = ["--power", "minbe"];
        let outputs = [["--trace", "t.jsonl"], ["--gantt", "t.svg"], ["--record", "t.steps"]];
        let args = ["run", "w.yaml", "--sysfs-root", "m", "--duration", "900ms"];
        let running = room.start(&[&args[..], &power, &outputs.concat()].concat());
        until("the run measures", || machine.policy_file(0, "scaling_governor") == "userspace");
        for n in 1..=6 {
            pause(120);
            machine.put("sys/class/powercap/intel-rapl:0/energy_uj", &(1_000_000 + n * 400_000).to_string());
            machine.put("sys/class/hwmon/hwmon0/temp1_input", &(46_000 + n * 1_000).to_string());
        }
        running.wait().expect(0);
        let trace = room.trace("t.jsonl");
        let values = |name: &str, quantity: Quantity| -> Vec<i64> {
            let meter = trace.header.meters.iter().position(|m| m.name == name && m.quantity == quantity);
            let meter = meter.unwrap_or_else(|| panic!("{name} is no meter of {:?}", trace.header.meters)) as u16;
            trace.measured.iter().filter(|m| m.meter == meter).map(|m| m.value).collect()
        };
        let frequencies = values("policy0", Quantity::Frequency);
        assert!(frequencies.iter().all(|khz| [800_000, 2_400_000].contains(khz)), "{frequencies:?}");
        let energies = values("package-0", Quantity::Energy);
        assert!(energies.len() >= 3 && energies.windows(2).all(|pair| pair[0] < pair[1]), "{energies:?}");
        assert!(energies.iter().all(|uj| uj % 400_000 == 0), "{energies:?}");
        let temperatures = values("coretemp:Package id 0", Quantity::Temperature);
        assert!(temperatures.len() >= 3 && temperatures.iter().all(|t| t % 1_000 == 0), "{temperatures:?}");
        assert_eq!(values("policy0 at 800 MHz", Quantity::Time), [0]);
        // The same in the other formats.
        for other in ["t.csv", "t.pftrace"] {
            room.takt(&["trace", "convert", "t.jsonl", other]).expect(0);
        }
        assert_eq!(room.trace("t.csv").measured, trace.measured);
        let perfetto = std::fs::read(room.path("t.pftrace")).unwrap();
        let has = |text: &str| perfetto.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(has("policy0 frequency, measured") && has("package-0 energy, measured"));
        let chart = room.text("t.svg");
        for title in ["policy0 (measured): ", "coretemp:Package id 0 (measured): ", "package-0 power (measured): "] {
            assert!(chart.contains(title), "{title}");
        }
        assert_eq!(room.text("t.steps").matches(r#"{"measured":"#).count(), trace.measured.len());
        let replay = ["sim", "w.yaml", "--replay", "t.steps", "--trace", "r.jsonl"];
        room.takt(&[&replay[..], &power].concat()).expect(0);
        assert_eq!(decisions(&room, "r.jsonl"), decisions(&room, "t.jsonl"));
    });
}

/// `takt bench speed` measures each frequency of each domain, prints lines that `platform` takes, and restores the settings however it ends.
#[test]
fn speeds_are_measured_and_frequencies_restored() {
    on_cpus(|| {
        let (room, machine) = room(Machine::acpi_cpufreq);
        let before = machine.settings();
        let speed = ["bench", "speed", "--sysfs-root", "m"];
        let json = room.takt(&[&speed[..], &["--quick", "--json"]].concat()).json();
        assert_eq!(machine.settings(), before);
        let clusters = json["clusters"].as_array().unwrap();
        assert!(!clusters.is_empty());
        let mut best = 0;
        for cluster in clusters {
            let points = cluster["points"].as_array().unwrap();
            let frequencies: Vec<u64> = points.iter().map(|point| point["khz"].as_u64().unwrap()).collect();
            assert_eq!(frequencies, [800_000, 1_200_000, 1_800_000, 2_400_000], "{cluster}");
            for point in points {
                // The imitated kernel reports what was set.
                assert!(point["reported_khz"].is_null(), "{point}");
                let speed = point["integer_speed_e4"].as_i64().unwrap();
                assert!(speed > 0 && point["memory_speed_e4"].as_i64().unwrap() > 0, "{point}");
                best = best.max(speed);
            }
        }
        assert_eq!(best, 10_000);
        // The lines need the values that are not measured.
        let lines = json["yaml"].as_str().unwrap();
        let complete = lines
            .replace(", speed:", ", voltage: 1V, speed:")
            .replace("      frequencies:", "      capacitance: 100pF\n      frequencies:");
        std::fs::write(room.path("s.yaml"), format!("{WINDOWS}{complete}")).unwrap();
        room.takt(&["sim", "s.yaml", "--power", "slowest", "--duration", "200ms"]).expect(0);
        // Killed in the middle.
        let running = room.start(&[&speed[..], &["--rounds", "1000"]].concat());
        until("a frequency is set", || machine.policy_file(0, "scaling_governor") == "userspace");
        running.signal(Signal::KILL);
        running.wait();
        until("the settings are restored", || machine.settings() == before);
        // A driver that refuses, and a machine without frequencies.
        machine.fault(&format!("{DOMAIN}/scaling_setspeed"), "open EACCES");
        let refused = room.takt(&[&speed[..], &["--quick"]].concat()).expect(3);
        assert!(refused.stderr.contains("error[power-unavailable]"), "{}", refused.stderr);
        assert_eq!(machine.settings(), before);
        Machine::bare(&room.path("b"));
        let bare = room.takt(&["bench", "speed", "--sysfs-root", "b", "--quick"]).expect(0);
        assert!(
            bare.stdout.contains("present speed alone") && bare.stdout.contains("speed: 1.0000"),
            "{}",
            bare.stdout
        );
    });
}

/// `takt ctl reload` brings the frequencies of the new table's slices, and refuses one that the machine lacks.
#[test]
fn a_reload_brings_the_frequencies_of_its_slices() {
    on_cpus(|| {
        let (room, machine) = room(Machine::acpi_cpufreq);
        let with = |mhz: &str| WINDOWS.replace("cpu: 0,", &format!("cpu: 0, frequency: {mhz},"));
        for (name, mhz) in [("w.yaml", "800"), ("other.yaml", "1200"), ("lacking.yaml", "700")] {
            std::fs::write(room.path(name), with(mhz)).unwrap();
        }
        let args = ["run", "w.yaml", "--sysfs-root", "m", "--power", "per_slice", "--duration", "30s"];
        let outputs = ["--trace", "t.jsonl", "--record", "t.steps"];
        let running = Running::start(&mut command(&room, &[&args[..], &outputs].concat()));
        let now = |khz: &str| machine.policy_file(0, "scaling_cur_freq") == khz;
        until("the first table holds", || now("800000"));
        until("the run can be controlled", || ctl(&room, &["status"]).status.success());
        ctl(&room, &["reload", "other.yaml"]).expect(0);
        until("the other table holds", || now("1200000"));
        assert_eq!(ctl(&room, &["reload", "other.yaml"]).expect(0).stdout, "unchanged\n");
        let refused = ctl(&room, &["reload", "lacking.yaml"]).expect(2).stderr;
        assert!(refused.contains("700 MHz, which is not available"), "{refused}");
        ctl(&room, &["reload", "w.yaml"]).expect(0);
        until("the first table holds again", || now("800000"));
        running.signal(Signal::TERM);
        running.wait().expect(0);
        let replay = ["sim", "w.yaml", "--replay", "t.steps", "--power", "per_slice", "--trace", "r.jsonl"];
        room.takt(&replay).expect(0);
        assert_eq!(decisions(&room, "r.jsonl"), decisions(&room, "t.jsonl"));
    });
}

#[test]
fn missing_capabilities_are_refused_before_the_start() {
    on_cpus(|| {
        let marker = "processes: [{cmd: touch started; exec sleep 1000";
        let text = WINDOWS.replace("processes: [{cmd: exec sleep 1000", marker);
        let refused =
            |make: fn(&std::path::Path) -> Machine, prepare: &dyn Fn(&Machine), power: &str, words: &[&str]| {
                let (room, machine) = room(make);
                std::fs::write(room.path("w.yaml"), &text).unwrap();
                prepare(&machine);
                let before = machine.settings();
                let done = run(&room, &["--power", power, "--duration", "100ms"]).expect(3);
                words.iter().for_each(|word| assert!(done.stderr.contains(word), "{word}: {}", done.stderr));
                let demos = ["demos", "-p", power, "-t", "100", "-c", "w.yaml", "--sysfs-root", "m"];
                let done = room.takt(&demos).expect(1);
                words.iter().for_each(|word| assert!(done.stderr.contains(word), "{word}: {}", done.stderr));
                assert!(!room.path("started").exists(), "a process was started");
                assert_eq!(machine.settings(), before);
            };
        let nothing = |_: &Machine| {};
        let unavailable = "error[power-unavailable]";
        refused(Machine::bare, &nothing, "low", &[unavailable, "no control of CPU frequencies", "modprobe"]);
        let no_right = |machine: &Machine| machine.fault(&format!("{DOMAIN}/scaling_setspeed"), "open EACCES");
        refused(Machine::acpi_cpufreq, &no_right, "low", &[unavailable, "run as root"]);
        let no_governor = |machine: &Machine| machine.fault(&format!("{DOMAIN}/scaling_governor"), "refuse EBUSY");
        refused(Machine::acpi_cpufreq, &no_governor, "low", &[unavailable, "policy0 cannot be controlled"]);
        refused(Machine::acpi_cpufreq, &nothing, "skip_be:gpu,60", &[unavailable, "x86_pkg_temp (thermal_zone0)"]);
        refused(Machine::bare, &nothing, "skip_be:0,60", &[unavailable, "has no thermal zone"]);
    });
}

#[test]
fn a_frequency_domain_has_one_run() {
    on_cpus(|| {
        let (room, machine) = room(Machine::acpi_cpufreq);
        let running = room.start(&["run", "w.yaml", "--sysfs-root", "m", "--power", "low"]);
        until("the frequency is set", || machine.policy_file(0, "scaling_cur_freq") == "800000");
        let args = ["--power", "high", "--duration", "100ms", "--share-cpus"];
        let done = run(&room, &args).expect(3);
        let holder = format!("w.yaml (process {})", running.pid());
        assert!(done.stderr.contains("error[frequency-in-use]") && done.stderr.contains(&holder), "{}", done.stderr);
        let done = room.takt(&["demos", "-p", "high", "-t", "100", "-c", "w.yaml", "--sysfs-root", "m"]).expect(1);
        assert!(done.stderr.contains(&holder), "{}", done.stderr);
        // Without a policy it only shares the CPU.
        run(&room, &["--duration", "50ms", "--share-cpus"]).expect(0);
        assert_eq!(machine.policy_file(0, "scaling_cur_freq"), "800000");
        running.signal(Signal::TERM);
        running.wait().expect(0);
    });
}

#[test]
fn demos_takes_its_policies_and_warns_of_another_manager() {
    on_cpus(|| {
        let (room, machine) = room(Machine::imx8);
        machine.put(&format!("{DOMAIN}/scaling_governor"), "userspace");
        machine.put(&format!("{DOMAIN}/scaling_setspeed"), "896000");
        let mut command =
            room.command(&["demos", "-p", "Imx8_Fixed:1", "-c", "w.yaml", "--sysfs-root", "m", "-t", "300"]);
        let running = Running::start(command.env("DEMOS_PLAIN_LOG", "1"));
        until("the frequency is set", || machine.policy_file(0, "scaling_cur_freq") == "896000");
        let done = running.wait().expect(0);
        assert!(done.stderr.contains(">>> [warning]") && done.stderr.contains("`userspace`"), "{}", done.stderr);
        assert_eq!(machine.policy_file(0, "scaling_governor"), "userspace");
    });
}

/// The key `epp`, with and without a power policy, and however the run ends.
#[test]
fn a_preference_of_the_file_is_set_and_restored() {
    on_cpus(|| {
        for make in [Machine::intel_pstate, Machine::amd_pstate] {
            let (room, machine) = room(make);
            std::fs::write(room.path("w.yaml"), format!("epp: balance_power\n{WINDOWS}")).unwrap();
            let before = machine.settings();
            let report = run(&room, &["--duration", "60ms", "--json", "--trace", "t.jsonl"]).json();
            assert_eq!(report["power"]["preferences"][0]["name"], "balance_power", "{report}");
            assert_eq!(report["power"]["preferences"].as_array().unwrap().len(), 1);
            assert!(room.trace("t.jsonl").header.meters.iter().any(|meter| meter.name == "policy0"));
            assert_eq!(machine.settings(), before);
            for power in [&[][..], &["--power", "minbe"]] {
                let args = [&["run", "w.yaml", "--sysfs-root", "m"][..], power].concat();
                let running = room.start(&args);
                until("it is set", || machine.policy_file(0, "energy_performance_preference") == "balance_power");
                running.kill_and_wait();
                until("the settings are restored", || machine.settings() == before);
            }
        }
    });
}

/// A run that died with its watcher leaves its preference to the doctor.
#[test]
fn the_doctor_restores_a_preference() {
    on_cpus(|| {
        for (make, power) in [
            (Machine::intel_pstate as fn(&std::path::Path) -> Machine, &["--power", "minbe"][..]),
            (Machine::amd_pstate, &[]),
        ] {
            let (room, machine) = room(make);
            std::fs::write(room.path("w.yaml"), format!("epp: balance_power\n{WINDOWS}")).unwrap();
            let before = machine.settings();
            let running = room.start(&[&["run", "w.yaml", "--sysfs-root", "m"][..], power].concat());
            until("it is set", || machine.policy_file(0, "energy_performance_preference") == "balance_power");
            let pid = running.pid();
            watchers(pid).into_iter().for_each(|watcher| kill(watcher, Signal::KILL));
            until("the watcher is gone", || watchers(pid).is_empty());
            running.signal(Signal::KILL);
            running.wait_unchecked();
            // Any other run that starts now on this machine restores it as well, so that it is there is not checked.
            room.takt(&["doctor", "--clean"]).expect(0);
            assert_eq!(machine.settings(), before);
            assert!(groups(pid).is_empty() && processes(pid).is_empty());
        }
    });
}

#[test]
fn a_preference_that_the_machine_lacks_is_refused_before_anything_starts() {
    on_cpus(|| {
        let text = WINDOWS.replace("exec sleep 1000", "touch started; exec sleep 1000").replace("cpu: 0,", "cpu: 0-1,");
        let refused = |make: fn(&std::path::Path) -> Machine, epp: &str, prepare: &dyn Fn(&Machine), words: &[&str]| {
            let (room, machine) = room(make);
            std::fs::write(room.path("w.yaml"), format!("epp: {epp}\n{text}")).unwrap();
            prepare(&machine);
            let before = machine.settings();
            let done = run(&room, &["--duration", "60ms"]).expect(3);
            words.iter().for_each(|word| assert!(done.stderr.contains(word), "{word}: {}", done.stderr));
            assert!(!room.path("started").exists(), "a process was started");
            assert_eq!(machine.settings(), before);
        };
        let nothing = |_: &Machine| {};
        let unavailable = "error[power-unavailable]";
        refused(Machine::bare, "power", &nothing, &[unavailable, "no control of CPU frequencies"]);
        refused(Machine::acpi_cpufreq, "power", &nothing, &[unavailable, "acpi-cpufreq", "remove `epp`"]);
        let names = format!("{DOMAIN}/energy_performance_available_preferences");
        let few = |machine: &Machine| machine.put(&names, "default performance");
        refused(Machine::amd_pstate, "power", &few, &[unavailable, "`power`", "default, performance"]);
        let governor = |machine: &Machine| {
            machine.put(&format!("{DOMAIN}/scaling_governor"), "performance");
            machine.put(&format!("{DOMAIN}/energy_performance_preference"), "performance");
        };
        refused(Machine::intel_pstate, "{0: power}", &governor, &[unavailable, "cpupower frequency-set -g powersave"]);
        // CPUs with one frequency have one preference.
        let (room, machine) = room(Machine::amd_pstate);
        machine.put(&format!("{DOMAIN}/affected_cpus"), "0 1");
        std::fs::write(room.path("w.yaml"), format!("epp: {{0: power, 1: performance}}\n{text}")).unwrap();
        let done = run(&room, &["--duration", "60ms"]).expect(2);
        assert!(done.stderr.contains("error[conflicting-keys]") && done.stderr.contains("policy0"), "{}", done.stderr);
        let checked = room.takt(&["check", "w.yaml", "--sysfs-root", "m"]).expect(0);
        assert!(checked.stdout.contains("warning: `takt run` refuses `epp` here"), "{}", checked.stdout);
    });
}

/// A driver that takes 30 ms for each write in windows of 20 ms: requests are overtaken, and no window is lost, as it would be if the
/// scheduler waited.
#[test]
fn a_slow_driver_delays_no_window() {
    on_cpus(|| {
        let (room, machine) = room(Machine::acpi_cpufreq);
        machine.fault(&format!("{DOMAIN}/scaling_setspeed"), "delay 30000");
        let args = ["--power", "minbe", "--duration", "600ms", "--json", "--trace", "t.jsonl"];
        let report = run(&room, &args).json();
        let power = &report["power"];
        assert!(power["dropped"].as_u64().unwrap() >= 10, "{power}");
        assert!(power["longest_write_ns"].as_u64().unwrap() >= 30_000_000, "{power}");
        let windows = room.trace("t.jsonl");
        let windows = windows.records.iter().filter(|record| matches!(record.record.kind, RecordKind::Window { .. }));
        let times: Vec<Span> = windows.map(|record| record.record.at - takt_core::time::Time::ZERO).collect();
        assert_eq!(times, (0..30).map(|n| Span::from_ms(20) * n).collect::<Vec<_>>());
    });
}
