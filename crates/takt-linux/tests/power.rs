//! Power management over imitated machines, which refuse and clamp writes as the kernel does.

mod common;

use common::eventually;
use rustix::event::{EventfdFlags, eventfd};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::power::{self, Account, Domain, Method, Power, Quantity, Refusal, Root, Sample, Settings};
use takt_linux::{RunId, timer};
use takt_testing::sysfs::Machine;

/// A directory for a machine, which goes with this value.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn settings(dir: &Path) -> Settings {
    let root = Root::imitation(dir);
    let zones = power::zones(&root);
    let period = Duration::from_millis(5);
    let domains = power::domains(&root).expect("frequency domains");
    let meters = power::meters(&root, &domains, &zones);
    let (measured, latencies) = (domains.clone(), Vec::new());
    let (workload, preferences) = ("test.yaml".into(), Vec::new());
    Settings { root, domains, preferences, latencies, zones, required: 1, measured, meters, period, workload }
}

fn open(settings: Settings) -> Result<(Power, Receiver<Sample>), Refusal> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
    Power::open(&RunId::new().expect("a run"), settings, None, &CpuSet::EMPTY, wake)
}

/// Requests frequencies, each after the one before has been tried, and ends the run.
fn requests(power: Power, wanted: &[(usize, u32)], tried: impl Fn(usize)) -> Account {
    let requests = power.requests();
    for (number, (domain, khz)) in wanted.iter().enumerate() {
        requests.frequency(*domain, *khz);
        requests.post(None);
        tried(number);
    }
    power.close()
}

#[test]
fn drivers_are_recognised() {
    let dir = scratch();
    let rows = |domains: &[Domain]| -> Vec<String> {
        let row = |domain: &Domain| {
            let Domain { name, cpus, driver, governor, frequencies, has_table, method, .. } = domain;
            let (count, ends) = (frequencies.len(), (frequencies[0], frequencies[frequencies.len() - 1]));
            format!("{name} {cpus} {driver} {governor} {count} {ends:?} {has_table} {method:?}")
        };
        domains.iter().map(row).collect()
    };
    let found = |make: fn(&Path) -> Machine| {
        let dir = dir.path().join(format!("{}", make as usize));
        let machine = make(&dir);
        rows(&power::domains(&Root::imitation(machine.directory())).expect("domains"))
    };
    assert_eq!(
        found(Machine::acpi_cpufreq),
        [
            "policy0 0 acpi-cpufreq schedutil 4 (800000, 2400000) true Speed",
            "policy1 1 acpi-cpufreq schedutil 4 (800000, 2400000) true Speed",
        ]
    );
    assert_eq!(found(Machine::intel_pstate)[1], "policy1 1 intel_pstate powersave 37 (400000, 4000000) false Limits");
    assert_eq!(found(Machine::amd_pstate)[0], "policy0 0 amd-pstate-epp powersave 35 (1100000, 4465000) false Limits");
    assert_eq!(
        found(Machine::two_domains),
        [
            "policy0 0-1 cpufreq-dt performance 3 (400000, 1200000) true Limits",
            "policy2 2-3 cpufreq-dt performance 2 (1000000, 2000000) true Limits",
        ]
    );
    assert_eq!(found(Machine::imx8)[1], "policy4 4-5 imx8-cpufreq ondemand 4 (600000, 1596000) true Speed");
    let none = power::domains(&Root::imitation(Machine::bare(&dir.path().join("bare")).directory())).unwrap_err();
    assert!(none.reason.contains("no control of CPU frequencies") && none.fix.contains("modprobe"), "{none:?}");
}

#[test]
fn domains_whose_cpus_are_offline_are_left_out() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    machine.put("sys/devices/system/cpu/cpufreq/policy1/affected_cpus", "");
    let names: Vec<String> = settings(dir.path()).domains.into_iter().map(|domain| domain.name).collect();
    assert_eq!(names, ["policy0"]);
}

#[test]
fn each_driver_gets_its_frequencies_and_all_is_restored() {
    for make in [Machine::acpi_cpufreq, Machine::intel_pstate, Machine::amd_pstate, Machine::two_domains, Machine::imx8]
    {
        let dir = scratch();
        let machine = make(dir.path());
        let before = machine.settings();
        let wanted = settings(dir.path());
        let domains = wanted.domains.clone();
        // Up and down, each frequency after each neighbour, so that limits are raised and lowered.
        let up_and_down = |domain: &Domain| {
            let all = domain.frequencies.clone();
            let down = all.iter().rev().skip(1);
            all.iter().chain(down).chain(all.last()).copied().collect::<Vec<_>>()
        };
        let sequence: Vec<(usize, u32)> = domains
            .iter()
            .enumerate()
            .flat_map(|(number, domain)| up_and_down(domain).into_iter().map(move |khz| (number, khz)))
            .collect();
        let (power, _samples) = open(wanted).expect("power");
        let account = requests(power, &sequence, |number| {
            let (domain, khz) = sequence[number];
            let policy: usize = domains[domain].name.trim_start_matches("policy").parse().unwrap();
            let read = || machine.policy_file(policy, "scaling_cur_freq");
            eventually("the frequency is set", || read() == khz.to_string());
        });
        assert_eq!(account.written.failed, 0, "{:?}", account.written);
        assert_eq!((account.written.clamped, account.written.dropped), (0, 0));
        assert_eq!(account.written.written, sequence.len() as u64);
        account.restored.expect("restored");
        assert_eq!(machine.settings(), before);
    }
}

#[test]
fn hints_to_the_hardware_accompany_limits() {
    let dir = scratch();
    let machine = Machine::intel_pstate(dir.path());
    let (power, _samples) = open(settings(dir.path())).expect("power");
    assert_eq!(machine.policy_file(0, "energy_performance_preference"), "performance");
    drop(power);
    assert_eq!(machine.policy_file(0, "energy_performance_preference"), "balance_performance");
    // Under the governor `performance` the kernel takes no other hint, and needs none.
    machine.put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance");
    machine.put("sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "performance");
    let before = machine.settings();
    requests(open(settings(dir.path())).expect("power").0, &[(0, 800_000)], |_| {}).restored.expect("restored");
    assert_eq!(machine.settings(), before);
}

/// The settings with a preference for the first domain, of which nothing else is changed.
fn preferring(dir: &Path, name: &str) -> Settings {
    let all = settings(dir);
    let preferences = vec![(all.domains[0].clone(), name.to_owned())];
    Settings { domains: Vec::new(), preferences, ..all }
}

#[test]
fn a_preference_holds_for_the_run_and_is_restored() {
    for make in [Machine::intel_pstate, Machine::amd_pstate] {
        let dir = scratch();
        let machine = make(dir.path());
        let before = machine.settings();
        let file = |policy: usize| machine.policy_file(policy, "energy_performance_preference");
        let (power, _samples) = open(preferring(dir.path(), "power")).expect("power");
        assert_eq!([file(0), file(1)], ["power", "balance_performance"]);
        // Another run cannot have the domain.
        let Refusal::InUse(_) = open(preferring(dir.path(), "performance")).map(drop).unwrap_err() else { panic!() };
        let account = power.close();
        account.restored.expect("restored");
        assert_eq!(account.preferences, [("policy0".to_owned(), "power".to_owned())]);
        assert_eq!(machine.settings(), before);
        // With a policy that sets frequencies, it wins over the hint that accompanies limits. A raw value is restored, too.
        machine.put("sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "77");
        let before = machine.settings();
        let wanted = Settings { domains: settings(dir.path()).domains, ..preferring(dir.path(), "balance_power") };
        let (power, _samples) = open(wanted).expect("power");
        assert_eq!([file(0), file(1)], ["balance_power", "performance"]);
        drop(power);
        assert_eq!(machine.settings(), before);
    }
}

#[test]
fn a_preference_that_the_machine_lacks_changes_nothing() {
    let refused = |make: fn(&Path) -> Machine, prepare: &dyn Fn(&Machine), name: &str, reason: &str, fix: &str| {
        let dir = scratch();
        let machine = make(dir.path());
        prepare(&machine);
        let before = machine.settings();
        // Frequencies are taken over before the preference is written.
        let wanted = Settings { domains: settings(dir.path()).domains, ..preferring(dir.path(), name) };
        let Refusal::Unavailable(refused) = open(wanted).map(drop).unwrap_err() else { panic!("{name}") };
        assert!(refused.reason.contains(reason) && refused.fix.contains(fix), "{refused:?}");
        assert_eq!(machine.settings(), before);
    };
    let file = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
    let governor = |machine: &Machine| {
        machine.put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance");
        machine.put(file, "performance");
    };
    refused(Machine::acpi_cpufreq, &|_| {}, "power", "acpi-cpufreq", "active mode");
    refused(Machine::amd_pstate, &|_| {}, "powr", "no energy performance preference `powr`", "balance_power, power");
    for make in [Machine::intel_pstate, Machine::amd_pstate] {
        refused(make, &governor, "power", "cannot be set", "cpupower frequency-set -g powersave");
        refused(make, &|machine| machine.fault(file, "refuse EACCES"), "power", "cannot be set", "run as root");
        refused(make, &|machine| machine.fault(file, "refuse EIO"), "power", "cannot be set", "dmesg");
    }
}

#[test]
fn a_governor_of_another_program_keeps_its_frequency() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    let speed = |khz: &str| machine.put("sys/devices/system/cpu/cpufreq/policy0/scaling_setspeed", khz);
    machine.put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "userspace");
    machine.put("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1200000");
    speed("1200000");
    let account = requests(open(settings(dir.path())).expect("power").0, &[(0, 2_400_000)], |_| {
        eventually("the frequency is set", || machine.policy_file(0, "scaling_cur_freq") == "2400000");
    });
    account.restored.expect("restored");
    assert_eq!(machine.policy_file(0, "scaling_governor"), "userspace");
    assert_eq!(machine.policy_file(0, "scaling_cur_freq"), "1200000");
}

/// Requests at the planned instants of a table, and one without a plan. Returns how often the writer had to be woken.
fn wakeups_of_a_table(requests_of_table: u64) -> u64 {
    let (dir, frame) = (scratch(), Span::from_ms(4));
    let machine = Machine::acpi_cpufreq(dir.path());
    let before = machine.settings();
    let (power, _samples) = open(settings(dir.path())).expect("power");
    let requests = power.requests();
    requests.set_frame(frame);
    let mut planned = timer::now() + frame;
    for number in 1..=requests_of_table {
        std::thread::sleep(Duration::from_nanos((planned - timer::now()).or_zero().ns().unsigned_abs()));
        requests.frequency(0, if number % 2 == 0 { 800_000 } else { 1_200_000 });
        requests.post(Some(planned));
        planned += frame;
    }
    eventually("the last one is written", || machine.policy_file(0, "scaling_cur_freq") == "800000");
    requests.frequency(0, 2_400_000);
    requests.post(None);
    eventually("the one without a plan is written", || machine.policy_file(0, "scaling_cur_freq") == "2400000");
    let account = power.close();
    account.restored.expect("restored");
    assert_eq!(machine.settings(), before);
    let (written, all) = (account.written, requests_of_table + 1);
    assert_eq!((written.requested, written.written + written.dropped, written.failed), (all, all, 0), "{written:?}");
    written.woken
}

#[test]
fn requests_of_a_table_are_written_without_a_wake_up_for_each() {
    let woken = (0..20).map(|_| wakeups_of_a_table(50)).inspect(|woken| println!("{woken} wake-ups"));
    // On a machine that is busy all the time, requests come too late for each look. With one CPU the writer is always woken.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(woken.take(if cpus > 1 { 20 } else { 1 }).any(|woken| woken < 25 || cpus == 1));
}

#[test]
fn a_slow_driver_drops_requests_that_are_overtaken() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    machine.fault("sys/devices/system/cpu/cpufreq/policy0/scaling_setspeed", "delay 100000");
    let (power, _samples) = open(settings(dir.path())).expect("power");
    let requests = power.requests();
    let all = [800_000, 1_200_000, 1_800_000, 2_400_000, 1_200_000];
    for khz in all {
        requests.frequency(0, khz);
        requests.post(None);
    }
    // The writes would take half a second.
    let account = power.close();
    let written = account.written;
    assert_eq!(written.requested, all.len() as u64);
    assert_eq!(written.written + written.dropped, all.len() as u64);
    assert!(written.dropped >= 3, "{written:?}");
    assert!(written.longest >= Duration::from_millis(100));
}

#[test]
fn a_refused_write_is_counted_and_repeated_and_leaves_the_frequency() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    let path = "sys/devices/system/cpu/cpufreq/policy0/scaling_setspeed";
    let (power, _samples) = open(settings(dir.path())).expect("power");
    let requests = power.requests();
    let frequency = || machine.policy_file(0, "scaling_cur_freq");
    requests.frequency(0, 1_200_000);
    requests.post(None);
    eventually("the frequency is set", || frequency() == "1200000");
    machine.fault(path, "refuse EBUSY 0");
    requests.frequency(0, 2_400_000);
    requests.post(None);
    eventually("it is tried", || !machine.get(&format!("{path}.count")).is_empty());
    assert_eq!(frequency(), "1200000");
    machine.fault(path, "");
    eventually("the request is repeated", || frequency() == "2400000");
    let written = power.close().written;
    assert!(written.failed >= 1 && written.written == 2, "{written:?}");
    assert!(written.first_failure.expect("a reason").contains("scaling_setspeed"));
}

#[test]
fn a_limit_that_is_refused_leaves_both_limits() {
    for (refused, from, to) in [
        // Raising: the maximum is written first, and undone when the minimum is refused.
        ("scaling_min_freq", 400_000, 1_200_000),
        // Lowering: the minimum first.
        ("scaling_max_freq", 1_200_000, 400_000),
    ] {
        let dir = scratch();
        let machine = Machine::two_domains(dir.path());
        let limits = || [machine.policy_file(0, "scaling_min_freq"), machine.policy_file(0, "scaling_max_freq")];
        let (power, _samples) = open(settings(dir.path())).expect("power");
        let requests = power.requests();
        requests.frequency(0, from);
        requests.post(None);
        eventually("the limits are set", || limits() == [from.to_string(), from.to_string()]);
        let path = format!("sys/devices/system/cpu/cpufreq/policy0/{refused}");
        machine.fault(&path, "refuse EIO 0");
        requests.frequency(0, to);
        requests.post(None);
        eventually("it is tried", || !machine.get(&format!("{path}.count")).is_empty());
        // The first of the two writes is undone, unless it is the one that was refused.
        eventually("both are as before", || limits() == [from.to_string(), from.to_string()]);
        machine.fault(&path, "");
        let account = power.close();
        assert!(account.written.failed >= 1);
        account.restored.expect("restored");
    }
}

#[test]
fn a_limit_of_the_hardware_is_counted() {
    for make in [Machine::acpi_cpufreq, Machine::intel_pstate] {
        let dir = scratch();
        let machine = make(dir.path());
        machine.put("sys/devices/system/cpu/cpufreq/policy0/cap.imitation", "1800000");
        let (power, _samples) = open(settings(dir.path())).expect("power");
        let account = requests(power, &[(0, 1_200_000), (0, 2_400_000)], |number| {
            let frequency = ["1200000", "1800000"][number];
            eventually("the frequency is set", || machine.policy_file(0, "scaling_cur_freq") == frequency);
        });
        assert_eq!((account.written.clamped, account.written.failed), (1, 0), "{:?}", account.written);
        // The kernel has taken the limits from before, although the hardware caps them.
        account.restored.expect("restored");
    }
}

#[test]
fn a_refusal_before_the_start_changes_nothing() {
    for (is_intel, file, fault, fix) in [
        (false, "policy0/scaling_setspeed", "open EACCES", "run as root"),
        (false, "policy1/scaling_governor", "refuse EBUSY", "dmesg"),
        (false, "policy1/scaling_max_freq", "refuse EIO 0", "dmesg"),
        (true, "policy1/scaling_min_freq", "open EACCES", "run as root"),
    ] {
        let dir = scratch();
        let machine = if is_intel { Machine::intel_pstate(dir.path()) } else { Machine::acpi_cpufreq(dir.path()) };
        // A fault beside each setting that would be a change is one of the restoration, too.
        machine.put("sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq", "1200000");
        let before = machine.settings();
        machine.fault(&format!("sys/devices/system/cpu/cpufreq/{file}"), fault);
        let Refusal::Unavailable(refused) = open(settings(dir.path())).map(drop).unwrap_err() else { panic!("{file}") };
        assert!(refused.fix.contains(fix) && refused.reason.contains("cannot be controlled"), "{refused:?}");
        assert_eq!(machine.settings(), before, "{file}");
        // Its lock is free again.
        machine.fault(&format!("sys/devices/system/cpu/cpufreq/{file}"), "");
        open(settings(dir.path())).map(drop).expect("power");
        assert_eq!(machine.settings(), before, "{file}");
    }
}

#[test]
fn a_domain_has_one_run() {
    let dir = scratch();
    Machine::two_domains(dir.path());
    let all = settings(dir.path());
    let only = |index: usize| Settings { domains: vec![all.domains[index].clone()], ..all.clone() };
    let first = open(only(0)).expect("power");
    let Refusal::InUse(refused) = open(all.clone()).map(drop).unwrap_err() else { panic!("it is in use") };
    let own = std::process::id();
    assert!(refused.reason.contains(&format!("by test.yaml (process {own})")), "{refused:?}");
    assert!(refused.reason.contains("CPU 0-1 (the domain policy0)"), "{refused:?}");
    let second = open(only(1)).expect("another domain");
    drop(first);
    open(only(0)).expect("it is free again");
    drop(second);
    // Another machine has domains of its own.
    let other = scratch();
    Machine::two_domains(other.path());
    let _first = open(only(0)).expect("power");
    open(settings(other.path())).expect("another machine");
}

#[test]
fn idle_states_are_limited_for_each_cpu_or_for_all() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    let before = machine.settings();
    let wanted = Settings { latencies: vec![0, 1], ..settings(dir.path()) };
    let (power, _samples) = open(wanted.clone()).expect("power");
    let file = |cpu: usize| machine.get(&format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"));
    let requests = power.requests();
    requests.latency(0, Some(0));
    requests.latency(1, Some(50));
    requests.post(None);
    eventually("the latencies are limited", || [file(0), file(1)] == ["n/a", "50"]);
    requests.latency(0, None);
    requests.post(None);
    eventually("a limit is lifted", || file(0) == "0");
    power.close().restored.expect("restored");
    assert_eq!(machine.settings(), before);
    // Without a limit for each CPU: the strictest one for all of them.
    std::fs::remove_dir_all(dir.path().join("sys/devices/system/cpu/cpu0")).unwrap();
    machine.put("dev/cpu_dma_latency", "");
    let (power, _samples) = open(wanted).expect("power");
    let requests = power.requests();
    requests.latency(0, Some(100));
    requests.latency(1, Some(20));
    requests.post(None);
    eventually("the strictest one", || machine.get("dev/cpu_dma_latency") == "20");
    requests.latency(1, None);
    requests.post(None);
    eventually("the one that is left", || machine.get("dev/cpu_dma_latency") == "100");
}

#[test]
fn bad_temperatures_are_counted_and_give_no_sample() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    let all = settings(dir.path());
    let names: Vec<(&str, &str)> = all.zones.iter().map(|z| (z.name.as_str(), z.alias.as_str())).collect();
    assert_eq!(names, [("x86_pkg_temp", "thermal_zone0"), ("coretemp:Package id 0", "hwmon0/temp1")]);
    assert!(all.zones[1].is_named("hwmon0/temp1") && !all.zones[1].is_named("hwmon0"));
    let (power, samples) = open(Settings { zones: vec![all.zones[0].clone()], ..all }).expect("power");
    let mut bad = 0;
    for (content, temperature) in [
        ("61500", Some(61_500)),
        ("!EAGAIN", None),
        ("-40001", None),
        ("-40000", Some(-40_000)),
        ("150000", Some(150_000)),
        ("999999", None),
        ("hot", None),
        ("50000", Some(50_000)),
    ] {
        machine.put("sys/class/thermal/thermal_zone0/temp", content);
        // The reading that is under way may be of the content before.
        let seen = (0..).map(|_| samples.recv_timeout(Duration::from_secs(5)).expect("a sample"));
        let seen = seen.filter_map(|sample| match sample {
            Sample::Temperature { millidegrees, .. } => Some(millidegrees),
            Sample::Measured { .. } => None,
        });
        let mut seen = seen.inspect(|temperature| bad += u64::from(temperature.is_none())).take(1000);
        assert!(seen.any(|seen| seen == temperature), "{content}");
    }
    let account = power.close();
    assert!(account.bad[0] >= bad && bad >= 4, "{bad} {:?}", account.bad);
}

#[test]
fn energy_is_counted_over_the_end_of_a_counter() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    machine.put("sys/class/powercap/intel-rapl:0/energy_uj", "262143328000");
    let (power, _samples) = open(settings(dir.path())).expect("power");
    machine.put("sys/class/powercap/intel-rapl:0/energy_uj", "1150");
    let energy = power.close().energy;
    // Neither a part of the package nor the whole machine counts besides.
    assert_eq!(energy.iter().map(|e| (e.name.as_str(), e.uj)).collect::<Vec<_>>(), [("package-0", 2000)]);
}

#[test]
fn meters_report_values_that_change() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    let mut all = settings(dir.path());
    // The policy has asked for the thermal zone alone.
    all.zones.truncate(1);
    all.meters = power::meters(&all.root, &all.domains, &all.zones);
    let named = |name: &str, quantity: Quantity| {
        let found = all.meters.iter().position(|meter| meter.name == name && meter.quantity == quantity);
        u16::try_from(found.unwrap_or_else(|| panic!("{name} in {:?}", all.meters))).unwrap()
    };
    let frequency = named("policy1", Quantity::Frequency);
    let temperature = named("coretemp:Package id 0", Quantity::Temperature);
    let energy = named("package-0", Quantity::Energy);
    let time = named("policy0 at 1800 MHz", Quantity::Time);
    let start: i64 = machine.policy_file(1, "scaling_cur_freq").parse().unwrap();
    let (power, samples) = open(all).expect("power");
    let mut last = std::collections::HashMap::new();
    let mut next = |wanted: (u16, i64)| {
        while last.get(&wanted.0) != Some(&wanted.1) {
            let sample = samples.recv_timeout(Duration::from_secs(5)).unwrap_or_else(|e| panic!("{wanted:?}: {e}"));
            if let Sample::Measured { meter, value, .. } = sample {
                assert_ne!(last.insert(meter, value), Some(value), "a value that has not changed");
            }
        }
    };
    [(frequency, start), (temperature, 46_000), (energy, 0), (time, 0)].into_iter().for_each(&mut next);
    // By the run, and by the machine itself.
    let requests = power.requests();
    requests.frequency(1, 800_000);
    requests.post(None);
    next((frequency, 800_000));
    machine.put("sys/class/hwmon/hwmon0/temp1_input", "-5000");
    next((temperature, -5_000));
    machine.put("sys/class/powercap/intel-rapl:0/energy_uj", "1500000");
    next((energy, 500_000));
    // The counter wraps at 262,143,328,850 µJ.
    machine.put("sys/class/powercap/intel-rapl:0/energy_uj", "262143328800");
    next((energy, 262_142_328_800));
    machine.put("sys/class/powercap/intel-rapl:0/energy_uj", "50");
    next((energy, 262_142_328_900));
    let path = "sys/devices/system/cpu/cpufreq/policy0/stats/time_in_state";
    machine.put(path, "2400000 100\n1800000 142\n1200000 100\n800000 100");
    next((time, 420));
    assert_eq!(power.close().energy[0].uj, 262_142_328_900);
}

#[test]
fn time_at_frequencies_is_that_of_the_run() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    let (power, _samples) = open(settings(dir.path())).expect("power");
    let path = "sys/devices/system/cpu/cpufreq/policy0/stats/time_in_state";
    machine.put(path, "2400000 130\n1800000 100\n1200000 100\n800000 101");
    let residencies = power.close().residencies;
    assert_eq!(residencies[0], Some(vec![(2_400_000, 300), (1_800_000, 0), (1_200_000, 0), (800_000, 10)]));
    std::fs::remove_file(dir.path().join(path)).unwrap();
    assert_eq!(power::time_in_state(&Root::imitation(dir.path()), &settings(dir.path()).domains[0]), None);
}

#[test]
fn the_method_is_limits_without_the_governor() {
    let dir = scratch();
    let machine = Machine::acpi_cpufreq(dir.path());
    machine.put("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "ondemand performance schedutil");
    let methods: Vec<Method> = settings(dir.path()).domains.iter().map(|domain| domain.method).collect();
    assert_eq!(methods, [Method::Limits, Method::Speed]);
}
