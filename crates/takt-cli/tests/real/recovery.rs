//! Faults around a run: processes and groups that other programs move and remove, a full disk, SIGKILL. Each has the outcome that
//! `docs/operation.md` states, and nothing is left.
//!
//! Some random cases in each run of the tests; `cargo xtask campaign --only recovery` tries them for ten minutes.

use crate::common::{Room, Running, attempts, ensure, groups, kill, mechanisms, pause, processes, starters, until};
use crate::machine::{Capability, always, on_cpus, skip};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use takt_core::rng;
use takt_core::time::{Span, Time};

/// Two tasks, and one with a process for each job.
const WORK: &str = "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
    - {name: good, period: 20ms, runtime: 4ms, init: yes, cmd: exec takt burn --runtime 2ms}\n\
    - {name: other, period: 30ms, runtime: 6ms, init: yes, on_exit: restart, cmd: exec takt burn --runtime 3ms}\n\
    - {name: each, period: 100ms, runtime: 10ms, spawn: per-job, cmd: 'exec true'}\n";

/// Starts a run of [`WORK`] with a trace, and waits until it is under way.
fn under_way(room: &Room, more: &[&str]) -> Running {
    fs::write(room.path("w.yaml"), WORK).unwrap();
    let running = room.start(&[&["run", "w.yaml", "--json", "--trace", "t.jsonl"], more].concat());
    until("the schedule runs", || room.text("t.jsonl").lines().count() > 20);
    running
}

/// The process of a task that `takt burn` is, by its runtime.
fn burner(takt: i32, runtime: &str) -> Option<i32> {
    let line = format!("takt\0burn\0--runtime\0{runtime}\0");
    let is = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| text == line.as_bytes());
    processes(takt).into_iter().find(is)
}

/// The directories in which a process is, in the hierarchies with groups of its run.
fn places(takt: i32, pid: i32) -> Vec<PathBuf> {
    let mut tops = groups(takt);
    tops.retain(|top| !top.file_name().is_some_and(|name| name.to_string_lossy().contains("mark")));
    let holds = |dir: &Path| {
        fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|list| list.lines().any(|line| line == pid.to_string()))
    };
    let mut found = Vec::new();
    while let Some(dir) = tops.pop() {
        tops.extend(fs::read_dir(&dir).into_iter().flatten().flatten().map(|e| e.path()).filter(|path| path.is_dir()));
        if holds(&dir) {
            found.push(dir);
        }
    }
    found
}

/// The group above that of the run.
fn above(place: &Path) -> PathBuf {
    let is_run = |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("takt-"));
    place.ancestors().find(is_run).and_then(Path::parent).expect("a group of a run").to_owned()
}

fn notes(run: &serde_json::Value) -> String {
    run["notes"].to_string()
}

#[test]
fn a_process_that_another_program_moves_is_moved_back() {
    on_cpus(|| {
        for mechanism in mechanisms().into_iter().filter(|mechanism| *mechanism != "signal") {
            attempts(3, || {
                let room = Room::new();
                let running = under_way(&room, &["--mechanism", mechanism]);
                let takt = running.pid();
                let pid = burner(takt, "2ms").expect("a process");
                let before = places(takt, pid);
                always(!before.is_empty(), || "it is in no group".into());
                // Out of one hierarchy after the other.
                for place in &before {
                    fs::write(above(place).join("cgroup.procs"), pid.to_string()).unwrap();
                    until("it is back", || places(takt, pid) == before);
                }
                running.signal(Signal::INT);
                let done = running.wait();
                let said = done.stderr.matches("moved a process out of its group").count();
                always(said == before.len(), || format!("{mechanism}: {}", done.stderr));
                let run = done.json();
                let times = if before.len() == 1 { "once".into() } else { format!("{} times", before.len()) };
                always(notes(&run).contains(&format!("the process of good out of its group {times}")), || notes(&run));
                // A move holds up the freezer of cgroup v2 for some jobs.
                ensure(run["tasks"][0]["missed"].as_u64() <= Some(3), || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// It is not found in its group, and ends with the run all the same; so does its child in no group.
#[test]
fn a_moved_process_does_not_outlive_the_run() {
    on_cpus(|| {
        for mechanism in mechanisms().into_iter().filter(|mechanism| *mechanism != "signal") {
            let room = Room::with(
                "policy: edf\ncpus: 0\ntasks:\n\
                 - {name: a, period: 20ms, runtime: 4ms, init: yes, cmd: 'sleep 1000 & sleep 1001 & takt done; sleep 1002'}\n",
            );
            let running = room.start(&["run", "w.yaml", "--mechanism", mechanism, "--trace", "t.jsonl"]);
            until("the schedule runs", || {
                room.text("t.jsonl").lines().count() > 10 && processes(running.pid()).len() >= 3
            });
            let takt = running.pid();
            // The children are moved, and not the shell, whose group is looked up.
            let moved = processes(takt).into_iter().filter(|pid| {
                fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x00100"))
            });
            for pid in moved.collect::<Vec<_>>() {
                for place in places(takt, pid) {
                    let _ = fs::write(above(&place).join("cgroup.procs"), pid.to_string());
                }
            }
            running.signal(Signal::INT);
            // That nothing is left is checked here.
            running.wait().expect(0);
        }
    });
}

#[test]
fn a_group_that_another_program_removes_ends_its_task_alone() {
    on_cpus(|| {
        for mechanism in mechanisms().into_iter().filter(|mechanism| *mechanism != "signal") {
            attempts(3, || {
                let room = Room::new();
                let running = under_way(&room, &["--mechanism", mechanism]);
                let takt = running.pid();
                // The task `each` has a process for some milliseconds of each 100. Its group is empty between them.
                let tops = groups(takt);
                let own = |top: &PathBuf| top.join("p2/t0");
                let end = Instant::now() + Duration::from_secs(5);
                while tops.iter().map(own).any(|group| group.is_dir() && group.join("cgroup.procs").is_file()) {
                    tops.iter().map(own).for_each(|group| drop(fs::remove_dir(group)));
                    ensure(Instant::now() < end, || format!("{mechanism}: the group is never empty"))?;
                }
                let records = room.text("t.jsonl").lines().count();
                until("the others continue", || room.text("t.jsonl").lines().count() > records + 60);
                running.signal(Signal::INT);
                let done = running.wait();
                let run = done.json();
                let good = &run["tasks"][0];
                always(notes(&run).contains("its next process could not be started"), || format!("{mechanism}: {run}"));
                ensure(good["missed"] == 0 && good["met"].as_u64() > Some(10), || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// The first mounts of hierarchies with a freezer, a cpuset, or cgroup v2: the mount point, and how it is mounted again.
fn hierarchies() -> Vec<(PathBuf, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut seen = Vec::new();
    let known = mounts.lines().filter_map(|line| {
        let [_, mount, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let controller = options.split(',').find(|option| ["freezer", "cpuset"].contains(option));
        let how = match (kind, controller) {
            ("cgroup2", _) => format!("umount -l {mount} && mount -t cgroup2 none {mount}"),
            ("cgroup", Some(controller)) => {
                format!("umount -l {mount} && mount -t cgroup -o {controller} none {mount}")
            }
            _ => return None,
        };
        let hierarchy = (kind.to_owned(), controller.map(str::to_owned));
        let is_first = !seen.contains(&hierarchy);
        seen.push(hierarchy);
        is_first.then(|| (PathBuf::from(mount), how))
    });
    known.collect()
}

/// Groups that stand for a container, with a cpuset of CPU 0 where there is one; removed when this is dropped.
struct Container(Vec<PathBuf>);

impl Container {
    fn new() -> Container {
        let container = Container(
            hierarchies().iter().map(|(mount, _)| mount.join(format!("container-{}", std::process::id()))).collect(),
        );
        for group in &container.0 {
            fs::create_dir(group).unwrap();
            if group.join("cpuset.mems").exists() && !group.join("cgroup.controllers").exists() {
                fs::write(group.join("cpuset.mems"), "0").unwrap();
                fs::write(group.join("cpuset.cpus"), "0").unwrap();
            }
        }
        container
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The watcher of a run and its starter end a moment after it.
        for group in &self.0 {
            let deadline = Instant::now() + Duration::from_secs(2);
            while fs::remove_dir(group).is_err() && Instant::now() < deadline {
                pause(10);
            }
        }
    }
}

/// In groups with a limit of their own, and a namespace of control groups, as in a container: the groups of the run are below those. A
/// container usually mounts the hierarchies again, and so sees nothing above its own groups.
#[test]
fn a_run_in_a_container_stays_in_its_groups() {
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "namespaces need root and unshare");
    }
    on_cpus(|| {
        let all = mechanisms().into_iter().filter(|mechanism| *mechanism != "signal");
        for (mechanism, mounts_again) in all.flat_map(|mechanism| [(mechanism, true), (mechanism, false)]) {
            let room = Room::with(WORK);
            let container = Container::new();
            let enter = container.0.iter().map(|group| format!("echo 0 > {}/cgroup.procs && ", group.display()));
            let mounts = hierarchies().into_iter().filter(|_| mounts_again).map(|(_, how)| format!("{how} && "));
            let (enter, mounts) = (enter.collect::<String>(), mounts.collect::<String>());
            let run = |more: &str| {
                let text = format!(
                    "{enter}exec unshare --cgroup --mount sh -c '{mounts}exec \"$TAKT\" run {more} --mechanism {mechanism}'"
                );
                let mut shell = Command::new("sh");
                shell.args(["-c", &text]).env("TAKT", room.command(&[]).get_program()).current_dir(room.path(""));
                Running::start(&mut shell)
            };
            let running = run("w.yaml --json --trace t.jsonl");
            until("the schedule runs", || room.text("t.jsonl").lines().count() > 80);
            let tops = groups(running.pid());
            let is_inside = |top: &PathBuf| container.0.iter().any(|group| top.starts_with(group));
            always(!tops.is_empty() && tops.iter().all(is_inside), || format!("{mechanism}: {tops:?}"));
            running.signal(Signal::INT);
            let run_of = running.wait().json();
            always(run_of["mechanism"] == mechanism, || format!("{mechanism}: {run_of}"));
            always(run_of["tasks"][0]["met"].as_u64() > Some(3), || format!("{mechanism}: {run_of}"));
            // The cpuset of the container is a limit.
            if container.0.iter().any(|group| group.join("cpuset.mems").exists() && group.join("tasks").exists()) {
                fs::write(room.path("one.yaml"), WORK.replace("cpus: 0", "cpus: 1")).unwrap();
                let refused = run("one.yaml --duration 100ms").wait().expect(3);
                assert!(refused.stderr.contains("error[missing-cpu]"), "{}", refused.stderr);
            }
        }
    });
}

/// The files that a run writes as it goes, in each form.
const FILES: [&str; 5] = ["t.jsonl", "t.csv", "t.pftrace", "t.steps", "j.csv"];

/// A start removes what dead runs have left, and the report names what stays. Here the group of one is a mount point.
#[test]
fn remains_that_stay_are_in_the_report() {
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "a group that cannot be removed needs root and unshare");
    }
    on_cpus(|| {
        let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 20ms, runtime: 2ms, cmd: sleep 60}]");
        let layout = takt_linux::Layout::read().expect("/proc");
        let group = layout.freezer.or(layout.unified).expect("control groups").own.join("takt-999999-1");
        fs::create_dir(&group).expect("root");
        let run = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", script, "sh"]).arg(&group).arg(crate::common::program());
            let run = Running::start(command.current_dir(room.path(""))).wait();
            notes(&serde_json::from_str(&run.stdout).unwrap_or_default())
        };
        let mounted = run("mount --bind \"$1\" \"$1\" && exec \"$2\" run w.yaml --duration 100ms --json");
        let removed = run("exec \"$2\" run w.yaml --duration 100ms --json");
        let is_there = group.exists();
        let _ = fs::remove_dir(&group);
        assert!(mounted.contains("remains of a dead run stay: "), "{mounted}");
        assert!(!removed.contains("remains") && !is_there, "{removed}");
    });
}

fn written_into(file: &str) -> Vec<&str> {
    match file {
        "t.steps" => vec!["--record", file],
        "j.csv" => vec!["--jobs", file],
        _ => vec!["--trace", file],
    }
}

/// The whole packets of a trace in Perfetto's form: fields of number 1 with a length in front (`perfetto/trace/trace.proto`). An error if there is
/// something else before the last one, which may be cut off.
fn packets(bytes: &[u8]) -> Result<i64, String> {
    let (mut rest, mut count) = (bytes, 0);
    while let [tag, after @ ..] = rest {
        ensure(*tag == 0x0a, || format!("a field {tag} after {count} packets"))?;
        let Some(last) = after.iter().position(|byte| byte & 0x80 == 0) else { break };
        let length = after[..=last].iter().rev().fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        let Some(next) = after[last + 1..].get(length..) else { break };
        (rest, count) = (next, count + 1);
    }
    Ok(count)
}

/// How far a file that was cut off at some byte reaches; an error if its reader refuses it. For a table of jobs and Perfetto's form, the
/// number of its parts.
fn reaches(room: &Room, file: &str) -> Result<Time, String> {
    match file {
        "t.steps" => {
            let last = room.text(file);
            // The line that was being written may be cut off.
            let last = last.rsplit_once('\n').and_then(|(whole, _)| whole.lines().last().map(str::to_owned));
            let last: serde_json::Value = serde_json::from_str(&last.unwrap_or_default()).map_err(|e| e.to_string())?;
            Ok(Time::from_ns(last[0].as_i64().ok_or("no step")?))
        }
        "j.csv" => {
            let text = room.text(file);
            let (whole, _) = text.rsplit_once('\n').ok_or("no line")?;
            let rows: Vec<&str> = whole.lines().collect();
            ensure(rows.windows(2).all(|two| two[0].matches(',').count() == two[1].matches(',').count()), || {
                text.clone()
            })?;
            Ok(Time::from_ns(rows.len() as i64))
        }
        "t.pftrace" => Ok(Time::from_ns(packets(&fs::read(room.path(file)).map_err(|e| e.to_string())?)?)),
        _ => {
            let trace = room.trace(file);
            ensure(trace.footer.is_none(), || "it has an end".into())?;
            Ok(trace.records.last().ok_or("no record")?.record.at)
        }
    }
}

/// SIGKILL at a random moment: each file can be read up to its last flush, which is not long before.
#[test]
fn files_of_a_killed_run_are_read_to_their_last_flush() {
    on_cpus(|| {
        for (number, file) in (0..).zip(FILES) {
            let seed = takt_testing::seed() + number;
            attempts(3, || {
                let room = Room::with(WORK);
                let begun = Instant::now();
                let running = room
                    .start(&[&["run", "w.yaml", "--json", "--mechanism", "signal"][..], &written_into(file)].concat());
                until("the schedule runs", || fs::metadata(room.path(file)).is_ok_and(|m| m.len() > 2000));
                pause(100 + rng::draw_up_to(300, seed, 11, 0));
                // The records that were in the file before the kill are in it afterwards, and can be read.
                let before = reaches(&room, file)?;
                running.kill_and_wait();
                let (after, lived) = (reaches(&room, file)?, begun.elapsed());
                always(after >= before, || format!("{file}: {after} after {before}"));
                if matches!(file, "t.jsonl" | "t.csv") {
                    let done = room.takt(&["trace", "check", file, "w.yaml", "--tolerance", "20ms"]);
                    ensure(done.code() == 0, || format!("{file}: {}{}", done.stdout, done.stderr))?;
                }
                if file == "t.steps" {
                    let done = room.takt(&["sim", "w.yaml", "--replay", file, "--what-if", "--json"]);
                    ensure(done.code() == 0, || format!("{file}: {}", done.stderr))?;
                }
                let is_count = matches!(file, "j.csv" | "t.pftrace");
                let least = if is_count { Time::from_ns(5) } else { Time::ZERO + Span::from_ms(50) };
                let enough = after >= least;
                ensure(enough, || format!("{file} reaches {after} of {lived:?}"))
            });
        }
    });
}

/// A file system of 64 KiB below each file. The records that had room can be read, and the run ends with the reason.
#[test]
fn a_disk_that_fills_up_keeps_what_had_room() {
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "file systems of one's own need root and unshare");
    }
    on_cpus(|| {
        for file in FILES {
            let room = Room::with(
                "policy: edf\ncpus: 0\ntasks:\n\
                 - {name: a, period: 1ms, runtime: 500us, init: yes, cmd: exec takt burn --runtime 50us}\n",
            );
            fs::create_dir(room.path("disk")).unwrap();
            let on_disk = format!("disk/{file}");
            let arguments = written_into(file).into_iter().map(|word| if word == file { &on_disk } else { word });
            let command = format!(
                "mount -t tmpfs -o size=64k tmpfs disk && \"$TAKT\" run w.yaml --duration 60s --mechanism signal {}; status=$?; \
                 cp {on_disk} {file}; exit $status",
                arguments.collect::<Vec<_>>().join(" ")
            );
            let takt = room.command(&[]).get_program().to_owned();
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "sh", "-c", &command]).env("TAKT", takt).current_dir(room.path(""));
            let done = Running::start(&mut shell).wait().expect(1);
            assert!(
                done.stderr.contains(&format!("error[unwritable-file]: cannot write `{on_disk}`")),
                "{}",
                done.stderr
            );
            assert!(done.stderr.contains("No space left"), "{}", done.stderr);
            assert!(done.took < Duration::from_secs(50), "{file}: {:?}", done.took);
            let reached = reaches(&room, file).unwrap();
            let is_count = matches!(file, "j.csv" | "t.pftrace");
            let least = if is_count { Time::from_ns(300) } else { Time::ZERO + Span::from_ms(50) };
            assert!(reached > least, "{file}: {reached}");
        }
    });
}

/// A fault at a random moment.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillTakt,
    KillProcess,
    MoveProcess,
    KillStarter,
    Stop,
    RemoveGroups,
    StopProcess,
}

fn fault(seed: u64) -> Fault {
    use Fault::*;
    [KillTakt, KillProcess, MoveProcess, KillStarter, Stop, RemoveGroups, StopProcess]
        [rng::draw_up_to(6, seed, 12, 0) as usize]
}

/// A run with up to four faults; an error if the machine was too slow for it.
fn faulty(seed: u64, mechanisms: &[&'static str]) -> Result<(), String> {
    let draw = |number: u64, most: u64| rng::draw_up_to(most, seed, 13, number);
    let mechanism = mechanisms[draw(0, mechanisms.len() as u64 - 1) as usize];
    let file = ["t.jsonl", "t.csv", "t.pftrace"][draw(1, 2) as usize];
    let room = Room::with(WORK);
    let running = room.start(&["run", "w.yaml", "--json", "--mechanism", mechanism, "--trace", file]);
    let takt = running.pid();
    until("the schedule runs", || fs::metadata(room.path(file)).is_ok_and(|m| m.len() > 2000));
    for number in 0..=draw(2, 3) {
        pause(draw(10 + number, 150));
        let fault = fault(seed * 16 + number);
        let any = || {
            let all = processes(takt);
            (!all.is_empty()).then(|| all[draw(20 + number, all.len() as u64 - 1) as usize])
        };
        println!("{fault:?} ({mechanism})");
        match fault {
            Fault::KillTakt => {
                running.kill_and_wait();
                return reaches(&room, file).map(drop);
            }
            Fault::KillProcess => any().into_iter().for_each(|pid| kill(pid, Signal::KILL)),
            Fault::StopProcess => {
                if let Some(pid) = any() {
                    kill(pid, Signal::STOP);
                    pause(30);
                    kill(pid, Signal::CONT);
                }
            }
            Fault::MoveProcess => {
                for (pid, place) in
                    any().into_iter().flat_map(|pid| places(takt, pid).into_iter().map(move |p| (pid, p)))
                {
                    let _ = fs::write(above(&place).join("cgroup.procs"), pid.to_string());
                }
            }
            Fault::KillStarter => starters(takt).into_iter().for_each(|pid| kill(pid, Signal::KILL)),
            Fault::Stop => {
                running.signal(Signal::STOP);
                pause(draw(30 + number, 200));
                running.signal(Signal::CONT);
            }
            Fault::RemoveGroups => {
                for group in groups(takt).iter().flat_map(|top| (0..3).map(|n| top.join(format!("p{n}/t0")))) {
                    let _ = fs::remove_dir(group);
                }
            }
        }
    }
    pause(100);
    running.signal(if draw(3, 1) == 0 { Signal::INT } else { Signal::TERM });
    let done = running.wait();
    // Every process may have failed by then.
    always(matches!(done.code(), 0 | 1), || format!("{}: {}", done.code(), done.stderr));
    let run: serde_json::Value = serde_json::from_str(&done.stdout).map_err(|e| format!("{e}: {}", done.stdout))?;
    always(run["dropped_records"] == 0, || format!("records were lost: {run}"));
    if file == "t.pftrace" {
        return reaches(&room, file).map(drop);
    }
    always(room.trace(file).footer.is_some_and(|footer| footer.dropped == 0), || "the trace has no end".into());
    Ok(())
}

#[test]
fn random_faults_leave_nothing_and_lose_nothing() {
    let length = std::env::var("TAKT_RECOVERY")
        .map_or(Duration::from_secs(3), |seconds| Duration::from_secs(seconds.parse().expect("a number of seconds")));
    let single = std::env::var_os("TAKT_RECOVERY_ONE").is_some();
    let first = takt_testing::seed();
    on_cpus(|| {
        let (mechanisms, begun) = (mechanisms(), Instant::now());
        let before = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        for seed in first.. {
            if seed > first && (single || begun.elapsed() > length) {
                println!("{} runs with faults; nothing was left and no record lost", seed - first);
                break;
            }
            println!(
                "repeat with: TAKT_SEED={seed} TAKT_RECOVERY_ONE=1 cargo test -p takt-rt-cli --test real -- random_faults"
            );
            attempts(3, || faulty(seed, &mechanisms));
        }
        let after = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        assert_eq!(before, after, "the test itself leaks");
    });
}
