//! The fate of a run whose driver dies. This program is its own driver and its own watcher, so it has no test
//! harness: `crash __run …` drives a run, `crash __watch …` watches one.

mod common;

use common::{Scratch, eventually, status};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_linux::leftovers::{self, OnCrash};
use takt_linux::rt::{self, Class};
use takt_linux::{Choice, Layout, Mechanism, RunId, SpawnSpec, power, watcher};
use takt_testing::sysfs::Machine;
use takt_testing::{Capability, skip};

const MECHANISMS: [(&str, Choice, Capability); 3] = [
    ("v1", Choice::V1, Capability::V1),
    ("v2", Choice::V2, Capability::V2),
    ("signal", Choice::Signal, Capability::Signals),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[1..] {
        [watcher::SUBCOMMAND, pid, run, mode] => {
            watcher::watch(pid.parse().unwrap(), &run.parse().unwrap(), mode.parse().unwrap())
        }
        ["__run", mechanism, mode, program] => drive(mechanism, mode, program),
        ["__power", mode, dir] => drive_power(mode, Path::new(dir)),
        _ => {}
    }
    power_is_restored_by_the_watcher();
    power_is_restored_later();
    println!("power: ok");
    for (name, choice, capability) in MECHANISMS {
        if let Err(e) = Mechanism::open(choice, &RunId::new().unwrap()) {
            skip(capability, &format!("{name}: {e}; {}", e.fix));
            continue;
        }
        everything_is_gone_within_a_second(name);
        released_processes_run_on(name);
        remains_are_found_and_removed(name);
        a_clean_end_leaves_nothing(name);
        println!("{name}: ok");
    }
}

/// A driver: five processes that fork, two of them running, and then nothing, until it receives the request to end or is killed.
fn drive(mechanism: &str, mode: &str, program: &str) -> ! {
    let choice = MECHANISMS.iter().find(|(name, ..)| *name == mechanism).unwrap().1;
    let run = RunId::new().unwrap();
    if let Ok(on_crash) = mode.parse() {
        watcher::spawn_watcher(&run, on_crash).unwrap();
    }
    let mut mechanism = Mechanism::open(choice, &run).unwrap();
    let one = mechanism.cpus().iter().take(1).collect();
    let partition = mechanism.add_partition(&one, 5).unwrap();
    for i in 0..5 {
        let mut spec = SpawnSpec::shell(&format!("{program} 1000 & exec {program} 1000")).unwrap();
        if rt::rt_allowed() {
            spec.class = Class::Fifo(2);
        }
        let group = mechanism.group(partition, i);
        let pid = mechanism.spawn(group, &spec).unwrap();
        if i < 3 {
            mechanism.thaw(group).unwrap();
            let own = std::fs::read_link("/proc/self/exe").unwrap();
            eventually("exec", || std::fs::read_link(format!("/proc/{pid}/exe")).unwrap() != own);
        }
        if i == 2 {
            std::thread::sleep(Duration::from_millis(50));
            mechanism.freeze(group).unwrap();
        }
    }
    println!("{run}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    mechanism.destroy().unwrap();
    std::process::exit(0);
}

/// A driver that sets the frequencies of an imitated machine.
fn drive_power(mode: &str, dir: &Path) -> ! {
    let run = RunId::new().unwrap();
    if let Ok(on_crash) = mode.parse() {
        watcher::spawn_watcher(&run, on_crash).unwrap();
    }
    let root = power::Root::imitation(dir);
    let domains = power::domains(&root).unwrap();
    // Where the driver takes preferences, one of the file for the second domain.
    let preferences = domains.iter().skip(1).filter(|domain| !domain.preferences.is_empty());
    let preferences = preferences.map(|domain| (domain.clone(), "power".to_owned())).collect();
    let settings = power::Settings {
        root,
        domains,
        preferences,
        latencies: vec![0, 1],
        zones: Vec::new(),
        required: 0,
        measured: Vec::new(),
        meters: Vec::new(),
        period: Duration::from_millis(100),
        workload: "crash".into(),
    };
    let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let (power, _samples) = power::Power::open(&run, settings, None, &CpuSet::EMPTY, wake).unwrap();
    let requests = power.requests();
    requests.frequency(0, 1_200_000);
    requests.frequency(1, 800_000);
    requests.latency(1, Some(0));
    requests.post(None);
    println!("{run}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::process::exit(1);
}

/// Starts such a driver, and returns once its requests are written.
fn power_driver(mode: &str, machine: &Machine) -> (Child, RunId) {
    let mut command = Command::new("/proc/self/exe");
    command.args(["__power", mode]).arg(machine.directory()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let run = line.trim().parse().expect("the driver is ready");
    eventually("its requests are written", || {
        let set = [0, 1].map(|domain| machine.policy_file(domain, "scaling_cur_freq"));
        let latency = machine.get("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us");
        set == ["1200000", "800000"] && latency == "n/a"
    });
    (child, run)
}

fn power_is_restored_by_the_watcher() {
    for make in [Machine::acpi_cpufreq, Machine::intel_pstate] {
        let scratch = Scratch::new("power");
        let machine = make(&scratch.0);
        let before = machine.settings();
        let (mut child, run) = power_driver("kill", &machine);
        assert_ne!(machine.settings(), before);
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("all is restored", || machine.settings() == before);
        eventually("nothing is left", || !leftovers::find().unwrap().contains_key(&run));
    }
}

fn power_is_restored_later() {
    // The governors and the limits of two domains, and two latencies. Of these, two governors and a latency are changed; the limits were open.
    // Without governors: limits, a preference of two domains, and two latencies. All but one latency are changed.
    for (make, noted, changed) in [(Machine::acpi_cpufreq as fn(&Path) -> Machine, 8, 3), (Machine::intel_pstate, 8, 7)]
    {
        let scratch = Scratch::new("power");
        let machine = make(&scratch.0);
        let before = machine.settings();
        let (mut child, run) = power_driver("unwatched", &machine);
        if changed == 7 {
            let preferences = [0, 1].map(|domain| machine.policy_file(domain, "energy_performance_preference"));
            assert_eq!(preferences, ["performance", "power"]);
        }
        assert!(leftovers::clean_run(&run, OnCrash::Kill).is_err(), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(machine.settings(), before);
        let found = leftovers::find().unwrap();
        assert_eq!(found[&run].settings, noted, "{found:?}");
        let cleaned = leftovers::clean_run(&run, OnCrash::Kill).unwrap();
        assert_eq!(cleaned.settings, changed);
        assert_eq!(machine.settings(), before);
        assert!(!leftovers::find().unwrap().contains_key(&run));
    }
}

/// A driver under test. Everything that it started is killed on drop, also when the test fails.
struct Driver {
    child: Child,
    run: RunId,
    program: String,
    _scratch: Scratch,
}

impl Driver {
    fn start(mechanism: &str, mode: &str) -> Driver {
        let scratch = Scratch::new("crash");
        let program = scratch.file("sleep");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut command = Command::new("/proc/self/exe");
        command.args(["__run", mechanism, mode, &program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let run = line.trim().parse().expect("the driver is ready");
        let driver = Driver { child, run, program, _scratch: scratch };
        eventually("two run, and have forked", || driver.processes().len() >= 4);
        driver
    }
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
    /// Live processes of this run's program.
    fn processes(&self) -> Vec<i32> {
        find(|line| line.starts_with(self.program.as_bytes()))
    }
    fn watchers(&self) -> Vec<i32> {
        let run = self.run.to_string();
        find(|line| {
            let mut arguments = line.split(|byte| *byte == 0).skip(1);
            arguments.next() == Some(b"__watch") && arguments.nth(1) == Some(run.as_bytes())
        })
    }
    /// Its directories at the top of each hierarchy.
    fn groups(&self) -> Vec<PathBuf> {
        let layout = Layout::read().unwrap();
        let hierarchies = [layout.unified, layout.freezer, layout.cpuset].into_iter().flatten();
        hierarchies.map(|h| h.own.join(self.run.group_name())).filter(|dir| dir.exists()).collect()
    }
    fn is_gone(&self) -> bool {
        self.processes().is_empty() && self.groups().is_empty() && self.watchers().is_empty()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = leftovers::clean_run(&self.run, OnCrash::Kill);
        // Released processes belong to no run.
        for pid in self.processes().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn find(wanted: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process that is ending has no command line.
    pids.filter(|pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| wanted(&line))).collect()
}

fn everything_is_gone_within_a_second(mechanism: &str) {
    // A stall of the machine can spoil a try.
    let quick = (0..10).any(|_| {
        let took = time_to_clean_up(mechanism);
        println!("{mechanism}: all is gone after {took:?}");
        took < Duration::from_secs(1)
    });
    assert!(quick, "{mechanism}");
}

fn time_to_clean_up(mechanism: &str) -> Duration {
    let mut driver = Driver::start(mechanism, "kill");
    assert_eq!(driver.watchers().len(), 1);
    let watcher = driver.watchers()[0];
    assert_ne!(status(watcher, "PPid"), driver.run.pid().to_string(), "not a child of the run");
    let files = std::fs::read_dir(format!("/proc/{watcher}/fd")).unwrap().count();
    assert_eq!(files, 5, "0, 1, 2, the run and its lock");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(Pid::from_raw(watcher).unwrap(), signal).unwrap();
    }
    assert_eq!(driver.groups().is_empty(), mechanism == "signal");
    driver.kill();
    let start = Instant::now();
    eventually("all is gone", || driver.is_gone());
    start.elapsed()
}

fn released_processes_run_on(mechanism: &str) {
    let mut driver = Driver::start(mechanism, "release");
    driver.kill();
    eventually("the watcher is done", || driver.watchers().is_empty());
    assert_eq!(driver.groups(), Vec::<PathBuf>::new(), "{mechanism}");
    // Processes that had never been thawed run now, too. Without a group they end with the driver, since they could not be found.
    let expected = if mechanism == "signal" { 6 } else { 10 };
    eventually("all run", || driver.processes().len() == expected);
    let all = rt::affinity(0).unwrap().to_string();
    for pid in driver.processes() {
        eventually("it sleeps", || status(pid, "State").starts_with('S'));
        assert_eq!(status(pid, "Cpus_allowed_list"), all, "{mechanism}");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.trim_end().split(' ').rev().nth(11) == Some("0"), "{mechanism}: the ordinary class: {stat}");
    }
    assert!(Path::new(&driver.program).exists());
}

fn remains_are_found_and_removed(mechanism: &str) {
    let mut dead = Driver::start(mechanism, "unwatched");
    let alive = Driver::start(mechanism, "unwatched");
    assert!(!leftovers::find().unwrap().contains_key(&dead.run), "it lives");
    assert!(leftovers::clean_run(&dead.run, OnCrash::Kill).is_err(), "it lives");
    dead.kill();
    let found = leftovers::find().unwrap();
    assert!(found.contains_key(&dead.run) && !found.contains_key(&alive.run), "{mechanism}: {found:?}");
    let cleaned = leftovers::clean_run(&dead.run, OnCrash::Kill).unwrap();
    assert!(cleaned.processes >= 4 && (cleaned.groups > 0) != (mechanism == "signal"), "{mechanism}: {cleaned:?}");
    eventually("all is gone", || dead.is_gone());
    assert!(!leftovers::find().unwrap().contains_key(&dead.run));
    assert!(alive.processes().len() >= 4 && alive.groups().is_empty() == (mechanism == "signal"), "{mechanism}");
}

fn a_clean_end_leaves_nothing(mechanism: &str) {
    let mut driver = Driver::start(mechanism, "kill");
    drop(driver.child.stdin.take());
    assert!(driver.child.wait().unwrap().success(), "{mechanism}");
    assert_eq!(driver.groups(), Vec::<PathBuf>::new());
    assert_eq!(driver.processes(), Vec::<i32>::new());
    eventually("the watcher ends", || driver.is_gone());
}
