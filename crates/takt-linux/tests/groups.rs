//! The mechanism over real processes: every mechanism that this machine has.

mod common;

use common::{Run, Scratch, cpus, eventually, on_each, pause, status, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::{AsFd, AsRawFd};
use takt_linux::rt::{self, Class};
use takt_linux::{Choice, Mechanism, Output, RunId, SpawnSpec};
use takt_testing::{Capability, skip};

const SPIN: &str = "while :; do :; done";
/// The time that the kernel may still charge, in milliseconds, to a process that is asleep already: emulated CPUs that take turns leave a
/// switch half done. A process that is not frozen uses many times as much in the pauses here.
const LEAVING: f64 = 1.0;

#[test]
fn a_process_runs_only_while_thawed() {
    on_each(|run| {
        let group = run.one();
        let pid = run.shell(group, SPIN);
        pause(50);
        let born = run.cpu_ms(group);
        run.mechanism.thaw(group).unwrap();
        eventually("progress", || run.cpu_ms(group) > born + 20.0);
        for _ in 0..5 {
            run.mechanism.freeze(group).unwrap();
            let frozen = run.stopped_at(group, pid);
            pause(60);
            assert!(run.cpu_ms(group) < frozen + LEAVING, "{}: a frozen process used CPU time", run.name);
            run.mechanism.thaw(group).unwrap();
            eventually("progress", || run.cpu_ms(group) > frozen + 5.0);
        }
    });
}

#[test]
fn a_program_does_not_start_before_the_first_thaw() {
    on_each(|run| {
        let scratch = Scratch::new("born");
        let partition = run.partition(60);
        let groups: Vec<_> = (0..60).map(|i| run.mechanism.group(partition, i)).collect();
        let mut pids = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            pids.push(run.shell(*group, &format!("touch {}", scratch.file(&i.to_string()))));
        }
        pause(100);
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        for pid in pids {
            assert_eq!(std::fs::read_link(format!("/proc/{pid}/exe")).unwrap(), own, "{}: not even exec", run.name);
        }
        let files = || std::fs::read_dir(&scratch.0).unwrap().count();
        assert_eq!(files(), 0, "{}", run.name);
        groups.iter().for_each(|group| run.mechanism.thaw(*group).unwrap());
        eventually("all have run", || files() == 60);
    });
}

#[test]
fn no_child_escapes_however_early_it_forks() {
    // The full thousand takes half a minute on a busy machine in a debug build.
    let starts = std::env::var("TAKT_TEST_STARTS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    on_each(|run| {
        let partition = run.partition(starts);
        // A name that only these processes carry.
        let scratch = Scratch::new("escape");
        let mark = scratch.file("sleep");
        std::fs::copy("/bin/sleep", &mark).unwrap();
        let groups: Vec<_> = (0..starts).map(|i| run.mechanism.group(partition, i)).collect();
        for group in &groups {
            run.shell(*group, &format!("{mark} 1000 & {mark} 1000"));
            run.mechanism.thaw(*group).unwrap();
        }
        let alive = || -> usize {
            let entries = std::fs::read_dir("/proc").unwrap().flatten();
            let is_ours = |path: std::path::PathBuf| std::fs::read(path).is_ok_and(|c| c.starts_with(mark.as_bytes()));
            entries.filter(|e| is_ours(e.path().join("cmdline"))).count()
        };
        eventually("all have forked", || alive() >= starts);
        run.mechanism.destroy().unwrap();
        eventually("all are dead", || alive() == 0);
    });
}

#[test]
fn difficult_processes_end_with_their_group() {
    on_each(|run| {
        let scratch = Scratch::new("difficult");
        let file = scratch.file("pid");
        for command in [
            "trap '' TERM HUP INT; while :; do sleep 0.01; done".to_string(),
            // A daemon: new session, its parents gone.
            format!(
                "setsid sh -c '(sleep 1000 & echo $! >{file}.new; mv {file}.new {file}; sleep 1000) &' & sleep 1000"
            ),
        ] {
            let group = run.one();
            let pid = run.shell(group, &command);
            run.mechanism.thaw(group).unwrap();
            pause(50);
            if command.contains("setsid") {
                eventually("the daemon runs", || std::fs::exists(&file).unwrap());
            }
            run.mechanism.freeze(group).unwrap();
            run.mechanism.kill(group).unwrap();
            assert_eq!(wait(pid).terminating_signal(), Some(9), "{}", run.name);
            eventually("the group is empty", || run.mechanism.leader_exited(group).unwrap());
            run.children.retain(|child| *child != pid);
        }
        let daemon: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let gone = |pid: i32| {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        eventually("the daemon is gone", || gone(daemon));
    });
}

#[test]
fn exits_are_told_apart() {
    on_each(|run| {
        let group = run.one();
        for (argv, status) in [
            (&["/bin/true"][..], 0),
            (&["sh", "-c", "exit 3"], 3),
            (&["/does/not/exist"], 127),
            (&["takt-no-such-program"], 127),
            (&["/etc/passwd"], 126),
        ] {
            run.mechanism.freeze(group).unwrap();
            let pid = run.mechanism.spawn(group, &SpawnSpec::new(argv).unwrap()).unwrap();
            run.mechanism.thaw(group).unwrap();
            assert_eq!(wait(pid).exit_status(), Some(status), "{}: {argv:?}", run.name);
            // Some kernels take the process out of its group a moment after it was reaped.
            let empty = run.mechanism.leader_exited(group).unwrap();
            eventually("it is empty", || empty || !run.mechanism.populated(group).unwrap());
            assert_eq!(run.mechanism.cpu_time(group), None);
        }
        let mut spec = SpawnSpec::shell("true").unwrap();
        spec.cwd = Some(c"/does/not/exist".into());
        assert!(run.mechanism.spawn(group, &spec).unwrap_err().to_string().contains("/does/not/exist"));
        assert!(!run.mechanism.populated(group).unwrap());
    });
}

#[test]
fn a_program_gets_a_clean_process() {
    on_each(|run| {
        let group = run.one();
        let scratch = Scratch::new("clean");
        let out = std::fs::File::create(scratch.0.join("out")).unwrap();
        // Inherited on purpose, as by a careless library.
        let leak = rustix::io::fcntl_dupfd_cloexec(&out, 100).unwrap();
        rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
        let (a, b) = (std::fs::File::open("/dev/null").unwrap(), std::fs::File::open("/dev/zero").unwrap());
        let script = "readlink /proc/$$/fd/0; pwd; echo $TAKT_RUN $TAKT_GROUP $X; \
                      grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -Sn; cut -d' ' -f5,6 /proc/$$/stat; echo $$ >&2";
        let mut spec = SpawnSpec::new(&["/bin/sh", "-c", script]).unwrap();
        spec.set_env("X", "1").unwrap();
        spec.set_env("X", "2").unwrap();
        spec.cwd = Some(c"/".into());
        spec.stdout = Output::Fd(out.as_fd());
        spec.stderr = Output::Fd(out.as_fd());
        // Tests beside this one open descriptors, too.
        let numbers = [&a, &b].map(|file| file.as_raw_fd() + 500);
        spec.pass_fds = vec![(a.as_fd(), numbers[0]), (b.as_fd(), numbers[1])];
        let pid = run.mechanism.spawn(group, &spec).unwrap();
        run.mechanism.thaw(group).unwrap();
        assert_eq!(wait(pid).exit_status(), Some(0));
        let text = std::fs::read_to_string(scratch.0.join("out")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "/dev/null");
        assert_eq!(lines[1], "/");
        assert_eq!(lines[2], format!("{} p0/t0 2", run.mechanism.run()));
        assert_eq!(lines[3], "SigBlk:\t0000000000000000");
        assert_eq!(lines[4], "SigIgn:\t0000000000000000");
        assert!(lines[5] != "0" && lines[6].starts_with(&format!("{pid} ")), "its own process group: {text}");
        assert_eq!(lines[7], pid.to_string());
        // Looked at from outside, since a shell opens descriptors of its own.
        spec.argv = [c"sleep", c"1000"].map(Into::into).to_vec();
        run.mechanism.freeze(group).unwrap();
        let pid = run.start(group, &spec);
        run.mechanism.thaw(group).unwrap();
        eventually("exec", || status(pid, "Name") == "sleep");
        let open = || {
            let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            let mut open: Vec<i32> = entries.map(|e| e.file_name().to_str().unwrap().parse().unwrap()).collect();
            open.sort_unstable();
            open
        };
        // A dynamically linked program opens its libraries first, one after another.
        let mut given = [&[0, 1, 2], &numbers[..]].concat();
        given.sort_unstable();
        eventually("no descriptor is open but those it was given", || open() == given);
        // A number that is another one's source.
        spec.pass_fds = vec![(a.as_fd(), b.as_raw_fd()), (b.as_fd(), numbers[1])];
        assert!(run.mechanism.spawn(group, &spec).is_err());
    });
}

#[test]
fn a_partition_moves_between_cpus() {
    on_each(|run| {
        let all: Vec<usize> = run.mechanism.cpus().iter().collect();
        if all.len() < 2 {
            skip(Capability::Cpus, "there is one CPU");
            return;
        }
        let (first, second) = (cpus(&all[..1]), cpus(&all[1..2]));
        let partition = run.mechanism.add_partition(&first, 1).unwrap();
        run.mechanism.expect_cpu_changes(partition).unwrap();
        let group = run.mechanism.group(partition, 0);
        // With a child, which has to move too (signals reach only the process that was started).
        let pid = run.shell(group, &format!("{SPIN} & {SPIN}"));
        let allowed = |pid| status(pid, "Cpus_allowed_list");
        assert_eq!(allowed(pid), first.to_string(), "{}", run.name);
        run.mechanism.thaw(group).unwrap();
        eventually("progress", || run.cpu_ms(group) > 5.0);
        let mut child = 0;
        eventually("it has forked", || {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            children.trim().parse().map(|pid| child = pid).is_ok()
        });
        for set in [second, first, first.union(&second), second] {
            run.mechanism.freeze(group).unwrap();
            run.mechanism.set_cpus(partition, &set).unwrap();
            assert_eq!(allowed(pid), set.to_string(), "{}", run.name);
            assert!(run.name == "signal" || allowed(child) == set.to_string(), "{}", run.name);
            run.mechanism.thaw(group).unwrap();
            let before = run.cpu_ms(group);
            eventually("progress there", || run.cpu_ms(group) > before + 2.0);
        }
        assert!(run.mechanism.set_cpus(partition, &cpus(&[])).is_err());
        if run.name != "signal" && run.name != "v2 without cpuset" {
            assert!(run.mechanism.set_cpus(partition, &cpus(&[1023])).is_err());
            run.mechanism.set_cpus(partition, &second).expect("a failed change is not taken for done");
        }
        assert!(run.mechanism.add_partition(&cpus(&[1023]), 1).is_err());
    });
}

#[test]
fn a_process_gets_its_class_and_cpus() {
    if !rt::rt_allowed() {
        skip(Capability::RealTime, "no right to real-time classes");
        return;
    }
    on_each(|run| {
        let group = run.one();
        let mut spec = SpawnSpec::shell("sleep 1000").unwrap();
        spec.class = Class::Fifo(3);
        let last = run.mechanism.cpus().iter().last().unwrap();
        spec.cpus = Some(cpus(&[last]));
        let pid = run.start(group, &spec);
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        assert_eq!((fields[37], fields[38]), ("3", "1"), "{}", run.name);
        assert_eq!(status(pid, "Cpus_allowed_list"), last.to_string());
    });
}

/// A process that joins a v1 cpuset holds up freezes of v2 groups.
#[test]
fn a_process_started_during_a_v2_run_joins_no_v1_cpuset() {
    let mechanism = match Mechanism::open_for_starts(Choice::V2, &RunId::new().unwrap(), None) {
        Ok(mechanism) => mechanism,
        Err(e) => return skip(Capability::V2, &format!("v2: {e}; {}", e.fix)),
    };
    let mut run = Run { mechanism, children: Vec::new(), name: "v2" };
    let last = run.mechanism.cpus().iter().last().unwrap();
    let partition = run.mechanism.add_partition(&cpus(&[last]), 1).unwrap();
    let group = run.mechanism.group(partition, 0);
    let pid = run.shell(group, SPIN);
    let of = |who: &str| {
        let text = std::fs::read_to_string(format!("/proc/{who}/cgroup")).unwrap();
        text.lines().filter(|line| !line.starts_with("0::")).map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(of(&pid.to_string()), of("self"));
    assert_eq!(status(pid, "Cpus_allowed_list"), last.to_string());
    run.mechanism.thaw(group).unwrap();
    eventually("progress", || run.cpu_ms(group) > 20.0);
    let first = run.mechanism.cpus().iter().next().unwrap();
    run.mechanism.set_cpus(partition, &cpus(&[first])).unwrap();
    assert_eq!(status(pid, "Cpus_allowed_list"), first.to_string());
}

#[test]
fn the_end_of_an_orphaned_group_is_reported() {
    on_each(|run| {
        let group = run.one();
        let scratch = Scratch::new("orphan");
        let pid_file = scratch.file("pid");
        let pid = run.mechanism.spawn(group, &SpawnSpec::shell(&format!("sleep 1000 & echo $! >{pid_file}")).unwrap());
        let pid = pid.unwrap();
        run.mechanism.thaw(group).unwrap();
        assert_eq!(wait(pid).exit_status(), Some(0));
        assert!(!run.mechanism.leader_exited(group).unwrap(), "{}: its child lives on", run.name);
        let mut reported = Vec::new();
        run.mechanism.drain_emptied(|g| reported.push(g)).unwrap();
        assert!(reported.is_empty());
        let orphan: i32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(orphan).unwrap(), Signal::TERM).unwrap();
        if run.mechanism.notifies() {
            eventually("the report", || {
                run.mechanism.drain_emptied(|g| reported.push(g)).unwrap();
                reported == [group]
            });
        }
        eventually("it is empty", || !run.mechanism.populated(group).unwrap());
    });
}

#[test]
fn large_runs_keep_few_files_open() {
    on_each(|run| {
        let own_files = || std::fs::read_dir("/proc/self/fd").unwrap().flatten().count();
        let few = run.partition(10);
        let (a, b) = (run.mechanism.group(few, 3), run.mechanism.group(few, 7));
        let many = run.partition(400);
        let c = run.mechanism.group(many, 399);
        // Other tests open files at the same time, but not hundreds.
        assert!(own_files() < 300, "{}", own_files());
        let [a, b, c] = [a, b, c].map(|group| (group, run.shell(group, SPIN)));
        for (group, pid) in [a, b, c, b, a] {
            let before = run.cpu_ms(group);
            run.mechanism.thaw(group).unwrap();
            eventually("progress", || run.cpu_ms(group) > before + 5.0);
            run.mechanism.freeze(group).unwrap();
            let frozen = run.stopped_at(group, pid);
            pause(20);
            assert!(run.cpu_ms(group) < frozen + LEAVING, "{}: a frozen process used CPU time", run.name);
        }
    });
}
