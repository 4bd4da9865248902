//! Runs in containers: clean-ups in one PID or time namespace harm no run in another one over the same control groups, and a container that dies is
//! cleaned up after.
//!
//! Some rounds in each run of the tests; `cargo xtask campaign --only another-namespace` has 200.

use crate::common::{Done, Room, Running, find_processes, kill, mechanisms, pause, until, until_in};
use crate::machine::{Capability, always, on_cpus, skip};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_core::rng;
use takt_testing::sysfs::Machine;

/// Arguments of unshare(1): containers with and without a network of their own, and one with another clock since boot. None is the test's own.
const KINDS: [&[&str]; 4] = [
    &["--fork", "--kill-child", "--pid", "--mount-proc", "--net"],
    &["--fork", "--kill-child", "--pid", "--mount-proc"],
    &["--fork", "--kill-child", "--net", "--time", "--boottime", "500000"],
    &[],
];
/// The variable by which the processes of one container are found from outside.
const MARK: &str = "TAKT_TEST_CONTAINER";

/// The kinds that this machine has; says so if one is missing.
fn kinds() -> Vec<&'static [&'static str]> {
    let works = |kind: &&[&str]| {
        let tried = Command::new("unshare").args(*kind).arg("true").stderr(Stdio::null()).status();
        kind.is_empty() || tried.is_ok_and(|status| status.success())
    };
    let found: Vec<&[&str]> = KINDS.into_iter().filter(works).collect();
    if found.len() < KINDS.len() {
        skip(Capability::Mounts, "needs root and namespaces of PIDs, networks and clocks");
    }
    found
}

/// `takt` with these arguments in namespaces of that kind.
fn command(room: &Room, kind: &[&str], args: &[&str]) -> Command {
    let takt = room.command(args);
    if kind.is_empty() {
        return takt;
    }
    let mut command = Command::new("unshare");
    command.args(kind).arg(takt.get_program()).args(args).current_dir(room.path("."));
    command.stdin(Stdio::null());
    command
}

/// Ends with its remains removed.
fn clean(room: &Room, kind: &[&str]) {
    let (_, done) = Running::start(&mut command(room, kind, &["doctor", "--clean"])).wait_unchecked();
    done.expect(0);
}

/// A run in namespaces of its own.
struct Container {
    running: Running,
    kind: &'static [&'static str],
    /// The name of the run.
    run: String,
    mark: String,
}

impl Container {
    /// Starts it, and waits until its task is there.
    fn start(room: &Room, kind: &'static [&'static str], mark: &str, args: &[&str]) -> Container {
        let mark = format!("{}-{mark}", std::process::id());
        let mut running = Running::start(command(room, kind, args).env(MARK, &mark));
        let mut run = None;
        until_in(&mut running, "it has a task", || {
            run = tasks(&mark).into_iter().find_map(run_of);
            if run.is_some() { Ok(()) } else { Err("none".into()) }
        });
        Container { running, kind, run: run.unwrap(), mark }
    }

    /// The process that drives the run, as it is seen from here.
    fn takt(&self) -> i32 {
        let own = self.running.pid();
        if self.kind.is_empty() {
            return own;
        }
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("the only child of unshare")
    }

    fn is_whole(&self, tasks_before: &[i32]) {
        let now = tasks(&self.mark);
        always(now == tasks_before, || {
            format!("{:?}: the run {} had {tasks_before:?} and has {now:?}", self.kind, self.run)
        });
        always(Path::new(&format!("/run/takt/{}.life", self.run)).exists(), || format!("{} has no lock", self.run));
    }

    fn end(self) -> Done {
        kill(self.takt(), Signal::INT);
        self.running.wait_unchecked().1
    }

    fn kill(self) -> String {
        kill(self.takt(), Signal::KILL);
        self.running.wait_unchecked();
        self.run
    }
}

/// The task of the container with this mark: one process, of each workload here.
fn tasks(mark: &str) -> Vec<i32> {
    let entry = format!("{MARK}={mark}");
    let has = |text: Vec<u8>| text.split(|byte| *byte == 0).any(|found| found == entry.as_bytes());
    find_processes(|pid| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x001000\x00")
            && fs::read(format!("/proc/{pid}/environ")).is_ok_and(has)
    })
}

fn run_of(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let found = text.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"TAKT_RUN="))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

/// The files and groups of a run that are there.
fn remains(run: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter(|line| line.contains(" cgroup")).filter_map(|line| line.split(' ').nth(1));
    let groups = mounts.map(|mount| Path::new(mount).join(format!("takt-{run}")));
    let files = ["life", "sock"].map(|end| Path::new("/run/takt").join(format!("{run}.{end}")));
    groups.chain(files).filter(|path| path.exists()).collect()
}

fn journal() -> String {
    fs::read_to_string("/run/takt-isolate/journal").unwrap_or_default()
}

/// Two containers on disjoint CPUs, and clean-ups in all namespaces while both live. One of them is killed, and what it leaves is removed from elsewhere.
fn round(seed: u64, kinds: &[&'static [&'static str]], mechanisms: &[&'static str]) {
    let draw = |what: u64, below: usize| rng::draw_up_to(below as u64 - 1, seed, 11, what) as usize;
    let kind = |what| kinds[draw(what, kinds.len())];
    let room = Room::new();
    let work = |cpu: usize| {
        format!(
            "policy: edf\ncpus: {cpu}\ntasks:\n- {{name: a, period: 50ms, runtime: 5ms, init: yes, completion: sleep, cmd: exec sleep 1000}}\n"
        )
    };
    let windows = "partitions:\n- {name: a, processes: [{cmd: exec sleep 1000, budget: 6ms}]}\nwindows:\n- {length: 20ms, slices: [{cpu: 0, sc_partition: a}]}\n";
    fs::write(room.path("0.yaml"), work(0)).unwrap();
    fs::write(room.path("1.yaml"), work(1)).unwrap();
    fs::write(room.path("power.yaml"), windows).unwrap();
    let machine = Machine::acpi_cpufreq(&room.path("m"));
    let settings = machine.settings();
    let driven = || machine.policy_file(0, "scaling_cur_freq") == "800000";
    let mechanism = |what| mechanisms[draw(what, mechanisms.len())];
    let power = draw(1, 2) == 0;
    let left: Vec<&str> = match power {
        true => vec!["run", "power.yaml", "--sysfs-root", "m", "--power", "low", "--mechanism", mechanism(2)],
        false => vec!["run", "0.yaml", "--mechanism", mechanism(2)],
    };
    let right = ["run", "1.yaml", "--mechanism", mechanism(3)];
    println!("{:?} in {:?}, {right:?} in {:?}", left, kind(4), kind(5));
    let [left, right] = [(&left[..], kind(4), "left"), (&right[..], kind(5), "right")]
        .map(|(args, kind, mark)| Container::start(&room, kind, &format!("{seed}-{mark}"), args));
    if power {
        until("the frequency is set", driven);
    }
    let before = [&left, &right].map(|container| tasks(&container.mark));
    for kind in kinds {
        clean(&room, kind);
        [&left, &right].iter().zip(&before).for_each(|(container, tasks)| container.is_whole(tasks));
        always(!power || driven(), || "a clean-up has restored the settings of a live run".into());
        always(!power || journal().contains(&format!("run:{}", left.run)), || {
            "its settings are not in the journal".into()
        });
    }
    let left_dies = draw(6, 2) == 0;
    let (killed, other, of_other) = if left_dies { (left, right, &before[1]) } else { (right, left, &before[0]) };
    let kind = other.kind;
    let dead = killed.kill();
    // A container takes its watcher with it.
    clean(&room, kind);
    clean(&room, &[]);
    until("nothing of it is left", || remains(&dead).is_empty());
    other.is_whole(of_other);
    match power {
        true if left_dies => until("the settings of a dead run are restored", || machine.settings() == settings),
        true => always(driven(), || "a clean-up has restored the settings of a live run".into()),
        false => {}
    }
    let run = other.run.clone();
    other.end().expect(0);
    until("nothing is left", || remains(&run).is_empty());
    always(machine.settings() == settings, || "settings are not restored".into());
}

#[test]
fn clean_ups_in_other_namespaces_harm_no_run() {
    let rounds = std::env::var("TAKT_NAMESPACES").map_or(4, |rounds| rounds.parse().expect("a number of rounds"));
    let first = takt_testing::seed();
    on_cpus(|| {
        let kinds = kinds();
        if kinds.len() < 2 || !crate::common::has_cpus(2) {
            return;
        }
        let mechanisms = mechanisms();
        for seed in first..first + rounds {
            println!(
                "repeat with: TAKT_SEED={seed} TAKT_NAMESPACES=1 cargo test -p takt-cli --test real -- clean_ups_in_other"
            );
            round(seed, &kinds, &mechanisms);
        }
        println!("{rounds} rounds with {} clean-ups each: no harm, and nothing was left", kinds.len() + 2);
    });
}

/// An isolation of a run is no remainder in another namespace, and is undone there when its container is gone.
#[test]
fn an_isolation_in_a_container_lasts_as_long_as_its_run() {
    on_cpus(|| {
        if !super::isolate::can_isolate() {
            return;
        }
        for kind in kinds().into_iter().filter(|kind| !kind.is_empty()) {
            let before = super::isolate::snapshot();
            let room = Room::with(
                "policy: edf\ncpus: 1\ntasks:\n- {name: a, period: 50ms, runtime: 5ms, init: yes, completion: sleep, cmd: exec sleep 1000}\n",
            );
            for dies in [false, true] {
                let container = Container::start(
                    &room,
                    kind,
                    &format!("isolated-{dies}"),
                    &["run", "w.yaml", "--isolate=kernel-threads,interrupts"],
                );
                let owned =
                    |run: &str| journal().lines().any(|line| line.starts_with("isolation\t") && line.contains(run));
                always(owned(&container.run), || format!("{}: {}", container.run, journal()));
                clean(&room, &[]);
                clean(&room, kinds()[0]);
                always(owned(&container.run), || format!("{} was taken for dead: {}", container.run, journal()));
                let run = match dies {
                    true => container.kill(),
                    false => {
                        let run = container.run.clone();
                        container.end().expect(0);
                        run
                    }
                };
                if dies {
                    clean(&room, &[]);
                }
                until("it is undone", || !owned(&run) && remains(&run).is_empty());
                pause(20);
                let changed = super::isolate::changes(&before, &super::isolate::snapshot());
                always(changed.is_empty(), || format!("{kind:?}, killed: {dies}: {changed:#?}"));
            }
        }
    });
}
