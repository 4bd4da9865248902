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
use std::sync::atomic::{AtomicUsize, Ordering};
use takt_core::rng;
use takt_testing::sysfs::Machine;

/// Namespaces of a container.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    /// Arguments of unshare(1); none for the namespaces of the test.
    unshared: &'static [&'static str],
    /// Commands of a shell in the new namespaces.
    inside: &'static str,
    /// Commands of a shell before that, which has the name of the container as `$box`.
    before: &'static str,
}

impl Kind {
    const fn of(name: &'static str, unshared: &'static [&'static str]) -> Kind {
        Kind { name, unshared, inside: "", before: "" }
    }
    fn is_here(&self) -> bool {
        self.unshared.is_empty()
    }
    /// Its directory `/run`, with locks and journals, is its own.
    fn has_own_run(&self) -> bool {
        !self.inside.is_empty()
    }
}

const OWN_RUN: &str = "mount -t tmpfs -o mode=755 takt-test /run";

/// Moves the shell into a group of each hierarchy. The container sees nothing above these groups.
const BOXED: &str = r#"
grep -E "^[^ ]+ [^ ]+ cgroup2? " /proc/self/mounts | while read -r source at type options rest; do
    case "$type,$options" in
    cgroup2,* | cgroup,*freezer* | cgroup,*cpuset*)
        mkdir "$at/$box" || exit 1
        for file in cpuset.mems cpuset.cpus; do
            [ "$type" = cgroup2 ] || ! [ -e "$at/$file" ] || cat "$at/$file" > "$at/$box/$file"
        done
        echo $$ > "$at/$box/cgroup.procs" || exit 1;;
    esac
done || exit 1
"#;

/// The hierarchies as a container has them.
const MOUNTED: &str = r#"
grep -E "^[^ ]+ [^ ]+ cgroup2? " /proc/self/mounts > /run/mounts
while read -r source at type options rest; do
    umount -l "$at" || exit 1
    case "$type,$options" in
    cgroup2,*) mount -t cgroup2 none "$at" || exit 1;;
    cgroup,*freezer*) mount -t cgroup -o freezer none "$at" || exit 1;;
    cgroup,*cpuset*) mount -t cgroup -o cpuset none "$at" || exit 1;;
    esac
done < /run/mounts
"#;

/// A container as container engines make them: it shares nothing but the kernel and the files outside of `/run`.
const CONTAINER: Kind = Kind {
    name: "a container",
    unshared: &["--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--cgroup", "--net"],
    inside: MOUNTED,
    before: BOXED,
};

const KINDS: [Kind; 7] = [
    Kind::of("PIDs and a network", &["--fork", "--kill-child", "--pid", "--mount-proc", "--net"]),
    Kind::of("PIDs", &["--fork", "--kill-child", "--pid", "--mount-proc"]),
    Kind::of("a clock", &["--fork", "--kill-child", "--net", "--time", "--boottime", "500000"]),
    // The locks of groups alone show its runs.
    Kind { inside: ":", ..Kind::of("PIDs and /run", &["--fork", "--kill-child", "--pid", "--mount-proc", "--mount"]) },
    Kind { inside: ":", ..Kind::of("/run", &["--fork", "--kill-child", "--mount"]) },
    CONTAINER,
    Kind::of("none", &[]),
];

/// A container whose root has no rights over the machine, as that of a user without rights. Clean-ups alone are tried in it, since real-time classes and
/// isolations are refused there.
const ROOTLESS: Kind = Kind {
    inside: ":",
    ..Kind::of("users", &["--user", "--map-root-user", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount"])
};

/// The variable by which the processes of one container are found from outside.
const MARK: &str = "TAKT_TEST_CONTAINER";

/// Whether this machine has a kind.
fn works(kind: &Kind) -> bool {
    // Tests try kinds beside each other, and each try has groups of its own.
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    let mark = format!("takt-test-{}-try-{}", std::process::id(), TRIES.fetch_add(1, Ordering::Relaxed));
    let tried = command_of(kind, &mark, Path::new("true"), &[]).stderr(Stdio::null()).status();
    remove_boxes(&mark);
    kind.is_here() || tried.is_ok_and(|status| status.success())
}

/// The kinds that this machine has; says so if one is missing.
fn kinds() -> Vec<&'static Kind> {
    let found: Vec<&Kind> = KINDS.iter().filter(|kind| works(kind)).collect();
    if found.len() < KINDS.len() {
        skip(Capability::Mounts, "needs root and namespaces of PIDs, mounts, control groups, networks and clocks");
    }
    found
}

/// A program in namespaces of that kind. The process has the number of the command; the program is its child, unless the kind is here.
fn command_of(kind: &Kind, mark: &str, program: &Path, args: &[&str]) -> Command {
    let mut command = match kind.is_here() {
        true => Command::new(program),
        false => {
            let inside = match kind.has_own_run() {
                true => format!("{OWN_RUN} && {{ {}\n}} && exec \"$@\"", kind.inside),
                false => "exec \"$@\"".into(),
            };
            let outside = format!("{}\nexec unshare \"$@\"", kind.before);
            let mut shell = Command::new("sh");
            shell.args(["-c", &outside, "sh"]).args(kind.unshared).args(["sh", "-c", &inside, "sh"]).arg(program);
            shell.env("box", mark);
            shell
        }
    };
    command.args(args).stdin(Stdio::null());
    command
}

/// `takt` with these arguments in namespaces of that kind.
fn command(room: &Room, kind: &Kind, mark: &str, args: &[&str]) -> Command {
    let takt = room.command(&[]);
    let mut command = command_of(kind, mark, Path::new(takt.get_program()), args);
    command.current_dir(room.path("."));
    for (name, value) in takt.get_envs() {
        value.map(|value| command.env(name, value));
    }
    command
}

/// Removes the groups of a container that has ended.
fn remove_boxes(mark: &str) {
    let boxes = || hierarchies().into_iter().map(|mount| mount.join(mark)).filter(|group| group.exists());
    until("the groups of the container are removed", || {
        boxes().for_each(|group| drop(fs::remove_dir(group)));
        boxes().next().is_none()
    });
}

/// Removes remains, and returns the end of that.
fn cleaned(room: &Room, kind: &Kind) -> Done {
    let mark = format!("takt-test-{}-clean", std::process::id());
    let (_, done) = Running::start(&mut command(room, kind, &mark, &["doctor", "--clean"])).wait_unchecked();
    remove_boxes(&mark);
    done
}

/// Ends with its remains removed.
fn clean(room: &Room, kind: &Kind) {
    cleaned(room, kind).expect(0);
}

/// A run in namespaces of its own.
struct Container {
    running: Running,
    kind: &'static Kind,
    /// The name of the run.
    run: String,
    mark: String,
}

impl Container {
    /// Starts it, and waits until its task is there.
    fn start(room: &Room, kind: &'static Kind, mark: &str, args: &[&str]) -> Container {
        let mark = format!("takt-test-{}-{mark}", std::process::id());
        let mut running = Running::start(command(room, kind, &mark, args).env(MARK, &mark));
        let mut run = None;
        until_in(&mut running, &format!("a run in {} has a task", kind.name), || {
            run = tasks(&mark).into_iter().find_map(run_of);
            if run.is_some() { Ok(()) } else { Err("none".into()) }
        });
        Container { running, kind, run: run.unwrap(), mark }
    }

    /// The process that drives the run, as it is seen from here.
    fn takt(&self) -> i32 {
        let own = self.running.pid();
        if self.kind.is_here() {
            return own;
        }
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("the only child of unshare")
    }

    /// A path in the container.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.takt()))
    }

    /// The journal of settings that the container uses.
    fn journal(&self) -> String {
        fs::read_to_string(self.path("/run/takt-isolate/journal")).unwrap_or_default()
    }

    fn is_whole(&self, tasks_before: &[i32]) {
        let (now, name) = (tasks(&self.mark), self.kind.name);
        always(now == tasks_before, || format!("{name}: the run {} had {tasks_before:?} and has {now:?}", self.run));
        always(self.path(&format!("/run/takt/{}.life", self.run)).exists(), || format!("{} has no lock", self.run));
    }

    /// Ends it, and removes the groups of its container.
    fn end(self) -> Done {
        kill(self.takt(), Signal::INT);
        let (_, done) = self.running.wait_unchecked();
        remove_boxes(&self.mark);
        done
    }

    /// Kills it with all processes of its PID namespace. With the freezer of v1, frozen ones die when a clean-up has thawed them, and the container ends with
    /// the last one: [`Killed::wait`].
    fn kill(self) -> Killed {
        let takt = self.takt();
        kill(takt, Signal::KILL);
        // A process that ends gives its locks back before it has ended.
        let files = PathBuf::from(format!("/proc/{takt}/fd"));
        until("its run has lost its locks", || fs::read_dir(&files).map_or(0, Iterator::count) == 0);
        Killed { running: self.running, run: self.run, mark: self.mark }
    }
}

/// A container whose first process has been killed.
struct Killed {
    running: Running,
    run: String,
    mark: String,
}

impl Killed {
    /// Waits for its end, after a clean-up elsewhere.
    fn wait(self) {
        self.running.wait_unchecked();
        remove_boxes(&self.mark);
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

/// Where the hierarchies of control groups are mounted.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter(|line| line.contains(" cgroup"))
        .filter_map(|line| line.split(' ').nth(1))
        .map(PathBuf::from)
        .collect()
}

/// The files and groups of a run that are there, in containers, too.
fn remains(run: &str) -> Vec<PathBuf> {
    let name = format!("takt-{run}");
    let tops = || hierarchies().into_iter();
    let boxes = tops().flat_map(|top| fs::read_dir(top).into_iter().flatten().flatten()).map(|entry| entry.path());
    let boxes =
        boxes.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("takt-test-")));
    let groups = tops().chain(boxes).map(|place| place.join(&name));
    let files = ["life", "sock"].map(|end| Path::new("/run/takt").join(format!("{run}.{end}")));
    groups.chain(files).filter(|path| path.exists()).collect()
}

fn journal() -> String {
    fs::read_to_string("/run/takt-isolate/journal").unwrap_or_default()
}

/// The setting of the machine that a run changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Changes {
    Nothing,
    /// Frequencies, of an imitated machine.
    Power,
    /// Threads and interrupts are moved away from its CPU.
    Isolation,
}

/// One of the two containers of a round.
struct Side {
    container: Container,
    changes: Changes,
    machine: Machine,
    settings: Vec<(String, String)>,
    tasks: Vec<i32>,
}

impl Side {
    fn start(room: &Room, cpu: usize, changes: Changes, kind: &'static Kind, mechanism: &str, mark: &str) -> Side {
        let file = format!("{cpu}.yaml");
        let text = match changes {
            Changes::Power => format!(
                "partitions:\n- {{name: a, processes: [{{cmd: exec sleep 1000, budget: 6ms}}]}}\nwindows:\n- {{length: 20ms, slices: [{{cpu: {cpu}, sc_partition: a}}]}}\n"
            ),
            _ => format!(
                "policy: edf\ncpus: {cpu}\ntasks:\n- {{name: a, period: 50ms, runtime: 5ms, init: yes, completion: sleep, cmd: exec sleep 1000}}\n"
            ),
        };
        fs::write(room.path(&file), text).unwrap();
        let root = format!("m{cpu}");
        let machine = Machine::acpi_cpufreq(&room.path(&root));
        let settings = machine.settings();
        let mut args = vec!["run", &file, "--mechanism", mechanism];
        match changes {
            Changes::Nothing => {}
            Changes::Power => args.extend(["--sysfs-root", &root, "--power", "low"]),
            Changes::Isolation => args.push("--isolate=kernel-threads,interrupts"),
        }
        println!("CPU {cpu}: {changes:?} in {}, {mechanism}", kind.name);
        let container = Container::start(room, kind, mark, &args);
        let tasks = tasks(&container.mark);
        let side = Side { container, changes, machine, settings, tasks };
        until("its settings are those of the run", || side.holds(cpu));
        side
    }

    /// Whether its settings are those of the run.
    fn holds(&self, cpu: usize) -> bool {
        let (run, journal) = (&self.container.run, || self.container.journal());
        match self.changes {
            Changes::Nothing => true,
            Changes::Power => {
                let low = self.machine.policy_file(cpu, "scaling_cur_freq") == "800000";
                low && journal().contains(&format!("run:{run}"))
            }
            Changes::Isolation => {
                journal().lines().any(|line| line.starts_with("isolation\t") && line.contains(run.as_str()))
            }
        }
    }

    fn is_whole(&self, cpu: usize) {
        self.container.is_whole(&self.tasks);
        always(self.holds(cpu), || {
            format!("{:?} of the run {} was undone: {}", self.changes, self.container.run, self.container.journal())
        });
    }
}

/// Two containers on disjoint CPUs, and clean-ups in all namespaces while both live. One of them is killed, and what it leaves is removed from elsewhere.
fn round(seed: u64, kinds: &[&'static Kind], mechanisms: &[&'static str], isolates: bool) {
    let draw = |what: u64, below: usize| rng::draw_up_to(below as u64 - 1, seed, 11, what) as usize;
    let room = Room::new();
    let before = isolates.then(super::isolate::snapshot);
    // Not all CPUs can be isolated.
    let isolated = if isolates { draw(7, 4) } else { 2 };
    let changes = |cpu: usize| match draw(8 + cpu as u64, 2) {
        _ if isolated == cpu => Changes::Isolation,
        0 => Changes::Power,
        _ => Changes::Nothing,
    };
    let sides = [0, 1].map(|cpu| {
        let mut kind = kinds[draw(4 + cpu as u64, kinds.len())];
        // A group of a container is not the root of CPU sets, and the kernel gives it none of its own.
        if changes(cpu) == Changes::Isolation && kind.name == CONTAINER.name {
            kind = kinds[0];
        }
        let mut mechanism = mechanisms[draw(2 + cpu as u64, mechanisms.len())];
        if changes(cpu) == Changes::Isolation && mechanism == "signal" {
            mechanism = "auto";
        }
        Side::start(&room, cpu, changes(cpu), kind, mechanism, &format!("{seed}-{cpu}"))
    });
    // Some machines refuse namespaces of users.
    for kind in kinds.iter().copied().chain(Some(&ROOTLESS).filter(|kind| works(kind))) {
        clean(&room, kind);
        sides.iter().zip(0..).for_each(|(side, cpu)| side.is_whole(cpu));
    }
    let [left, right] = sides;
    // The journal of a container with a directory /run of its own is gone with it, so nothing could undo its isolation.
    let keeps = |side: &Side| side.changes == Changes::Isolation && side.container.kind.has_own_run();
    let left_dies = if keeps(&left) || keeps(&right) { keeps(&right) } else { draw(6, 2) == 0 };
    let (killed, other, cpu) = if left_dies { (left, right, 1) } else { (right, left, 0) };
    let has_journal = !killed.container.kind.has_own_run();
    let dying = killed.container.kill();
    let dead = dying.run.clone();
    // A container takes its watcher with it.
    // A process may take more than a second to die on a loaded machine, so a clean-up may have to be repeated.
    for kind in [other.container.kind, kinds[kinds.len() - 1]] {
        until("a clean-up removes the remainders", || {
            let done = cleaned(&room, kind);
            if done.code() != 0 {
                println!("a clean-up in {}: {}", kind.name, done.stderr);
            }
            done.code() == 0
        });
    }
    dying.wait();
    until("nothing of it is left", || remains(&dead).is_empty());
    other.is_whole(cpu);
    if has_journal {
        until("the settings of a dead run are restored", || {
            killed.machine.settings() == killed.settings && !journal().contains(&dead)
        });
    }
    let run = other.container.run.clone();
    other.container.end().expect(0);
    until("nothing is left", || remains(&run).is_empty());
    always(other.machine.settings() == other.settings, || "settings are not restored".into());
    if let Some(before) = before {
        pause(20);
        let changed = super::isolate::changes(&before, &super::isolate::snapshot());
        always(changed.is_empty(), || format!("{changed:#?}"));
    }
}

#[test]
fn clean_ups_in_other_namespaces_harm_no_run() {
    let rounds = std::env::var("TAKT_NAMESPACES").map_or(4, |rounds| rounds.parse().expect("a number of rounds"));
    let first = takt_testing::seed();
    let (kinds, mechanisms) = (kinds(), mechanisms());
    if kinds.len() < 2 || !crate::common::has_cpus(2) {
        return;
    }
    let isolates = super::isolate::can_isolate();
    // Once a clean-up in another PID namespace left frozen processes whose numbers it does not see (v1).
    for seed in [1096, 1114].into_iter().chain(first..first + rounds) {
        println!(
            "repeat with: TAKT_SEED={seed} TAKT_NAMESPACES=1 cargo test -p takt-rt-cli --test real -- clean_ups_in_other"
        );
        on_cpus(|| round(seed, &kinds, &mechanisms, isolates));
    }
    println!("{rounds} rounds with at least {} clean-ups each: no harm, and nothing was left", kinds.len() + 2);
}

/// An isolation of a run is no remainder in another namespace, and is undone there when its container is gone.
#[test]
fn an_isolation_in_a_container_lasts_as_long_as_its_run() {
    on_cpus(|| {
        if !super::isolate::can_isolate() {
            return;
        }
        let kinds = kinds();
        // Its journal is seen here.
        for kind in kinds.iter().copied().filter(|kind| !kind.is_here() && !kind.has_own_run()) {
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
                clean(&room, kinds[kinds.len() - 1]);
                clean(&room, kinds[0]);
                always(owned(&container.run), || format!("{} was taken for dead: {}", container.run, journal()));
                let run = container.run.clone();
                match dies {
                    true => {
                        let dying = container.kill();
                        clean(&room, kinds[kinds.len() - 1]);
                        dying.wait();
                    }
                    false => drop(container.end().expect(0)),
                }
                until("it is undone", || !owned(&run) && remains(&run).is_empty());
                pause(20);
                let changed = super::isolate::changes(&before, &super::isolate::snapshot());
                always(changed.is_empty(), || format!("{}, killed: {dies}: {changed:#?}", kind.name));
            }
        }
    });
}
