//! Isolated CPUs and measured lateness on this machine.

use crate::common::{Room, Running, TAKT, has_cpus, pause, until};
use crate::machine::{Capability, always, on_cpus, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_core::rng::draw_up_to;
use takt_linux::isolate::{Kernel, Linux};
use takt_linux::rt::{self, Class};

/// Whether CPUs can be isolated here; says so if not.
pub(super) fn can_isolate() -> bool {
    let root = rustix::process::geteuid().is_root();
    let can = root && has_cpus(2) && Linux::look().hierarchy().is_some();
    if !can {
        skip(Capability::Cpus, "isolation needs root, two CPUs and a cpuset controller");
    }
    can && !Linux::journal().exists()
}

/// The scheduling class of a thread and its priority there, as numbers of the kernel.
fn class_of(thread: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // The third field comes after the name, and the fields 40 and 41 are these (proc_pid_stat(5)).
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(37);
    let (priority, class) = (fields.next()?, fields.next()?);
    Some(format!("class {class}, priority {priority}"))
}

/// All settings that an isolation touches, the groups, the CPUs and groups of threads that live long, and the classes of the kernel's threads.
pub(super) fn snapshot() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut note = |path: &Path| {
        if let Ok(text) = fs::read_to_string(path) {
            all.insert(path.display().to_string(), text);
        }
    };
    for dir in fs::read_dir("/proc/irq").into_iter().flatten().flatten() {
        note(&dir.path().join("smp_affinity_list"));
    }
    for dir in fs::read_dir("/sys/devices/virtual/workqueue").into_iter().flatten().flatten() {
        note(&dir.path().join("cpumask"));
    }
    for path in ["/proc/irq/default_smp_affinity", "/sys/devices/virtual/workqueue/cpumask"] {
        note(Path::new(path));
    }
    for path in ["/proc/sys/kernel/watchdog_cpumask", "/proc/sys/vm/swappiness", "/proc/sys/kernel/sched_rt_runtime_us"]
    {
        note(Path::new(path));
    }
    let (v2, mount) = Linux::look().hierarchy().expect("a cpuset controller");
    for name in ["cpuset.cpus", "cpuset.sched_load_balance", "cpuset.cpu_exclusive", "cgroup.subtree_control"] {
        note(&Path::new(&mount).join(name));
    }
    let groups =
        fs::read_dir(&mount).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let groups: Vec<String> = groups.filter(|name| name.starts_with("takt-isolate") || name == "takt-others").collect();
    all.insert("groups".into(), groups.join(" "));
    let threads = Linux::look().threads();
    for thread in threads.iter().filter(|thread| thread.kernel) {
        all.extend(class_of(thread.id).map(|class| (format!("thread class {} {}", thread.id, thread.start), class)));
    }
    // Workers of the kernel come and go, and have no CPUs of their own.
    for thread in threads.into_iter().filter(|t| !t.fixed && (t.id < 60 || t.id == std::process::id() as i32)) {
        let group = if v2 || !thread.kernel { thread.group.clone() } else { String::new() };
        all.insert(format!("thread {} {}", thread.id, thread.start), format!("{} {group}", thread.cpus));
    }
    all
}

/// Differences between two snapshots.
pub(super) fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let gone = |key: &str| key.starts_with("thread") || key.starts_with("/proc/irq/");
    let differs = |(key, value): &(&String, &String)| match after.get(*key) {
        None => !gone(key),
        Some(now) => now != *value,
    };
    before.iter().filter(differs).map(|(key, value)| format!("{key}: {value:?}, now {:?}", after.get(key))).collect()
}

/// Kernel threads of any number are compared, bound ones too.
#[test]
fn a_raised_kernel_thread_is_a_difference() {
    on_cpus(|| {
        if !can_isolate() || !rt::rt_allowed() {
            return;
        }
        let ordinary = "class 0, priority 0";
        let is_ordinary = |id: i32| class_of(id).is_some_and(|class| class == ordinary);
        let threads = Linux::look().threads().into_iter();
        let mut bound = threads.filter(|t| t.kernel && t.fixed && t.name.starts_with("ksoftirqd"));
        // A machine may have raised them all.
        let Some(thread) = bound.find(|thread| is_ordinary(thread.id)) else { return };
        let before = snapshot();
        rt::set_class(thread.id, Class::Fifo(1)).expect("a right of root");
        let seen = changes(&before, &snapshot());
        rt::set_class(thread.id, Class::Other).expect("a right of root");
        let name = format!("thread class {} ", thread.id);
        assert!(seen.iter().any(|line| line.starts_with(&name) && line.contains("class 1, priority 1")), "{seen:#?}");
        assert_eq!(class_of(thread.id).as_deref(), Some(ordinary));
    });
}

/// The last CPU, which tests isolate.
fn last() -> String {
    takt_linux::rt::affinity(0).unwrap().iter().last().unwrap().to_string()
}

#[test]
fn an_isolation_is_there_and_is_undone_exactly() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, before, cpu) = (Room::new(), snapshot(), last());
        let created = room.takt(&["isolate", "create", "--cpus", &cpu, "--name", "test", "--with", "swap", "--json"]);
        let undo = Undo;
        let created: Value = created.expect(0).json();
        always(created["threads"].as_u64().unwrap() > 10 && created["settings"].as_u64().unwrap() > 2, || {
            created.to_string()
        });
        let verified = room.takt(&["isolate", "verify", "--json"]);
        // A task that has just been forked by one on its way is moved, too, so nothing may be left.
        always(verified.code() == 0, || verified.stdout.clone());
        let own = room.takt(&[
            "isolate",
            "run",
            "--",
            "sh",
            "-c",
            "grep Cpus_allowed_list /proc/self/status; cat /proc/self/timerslack_ns",
        ]);
        let lines: Vec<String> = own.expect(0).stdout.lines().map(str::to_owned).collect();
        assert_eq!(lines, [format!("Cpus_allowed_list:\t{cpu}"), "1".into()]);
        let mut sleeper = Command::new("sleep").arg("30").spawn().unwrap();
        room.takt(&["isolate", "move", &sleeper.id().to_string()]).expect(0);
        let moved = Linux::look().thread(sleeper.id() as i32).unwrap();
        assert_eq!((moved.cpus.to_string(), &*moved.group), (cpu.clone(), "/takt-isolate-test"));
        room.takt(&["isolate", "undo"]).expect(0);
        let back = Linux::look().thread(sleeper.id() as i32).unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!back.group.contains("takt") && back.cpus.len() > 1, "{back:?}");
        drop(undo);
        let different = changes(&before, &snapshot());
        always(different.is_empty() && !Linux::journal().exists(), || format!("{different:#?}"));
    });
}

/// Undoes all when a test fails.
struct Undo;
impl Drop for Undo {
    fn drop(&mut self) {
        if Linux::journal().exists() {
            let _ = Command::new(TAKT).args(["isolate", "undo", "--all"]).status();
        }
    }
}

/// The creator is killed at several instants: a later process undoes what it has done.
#[test]
fn a_creation_that_was_killed_is_undone_by_doctor() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, before, cpu) = (Room::new(), snapshot(), last());
        let _undo = Undo;
        for delay in [5, 20, 60, 120] {
            let create = room.start(&["isolate", "create", "--cpus", &cpu, "--name", "killed"]);
            pause(delay);
            create.kill_and_wait();
            room.takt(&["doctor", "--clean"]).expect(0);
            // It was complete, or had not begun.
            if Linux::journal().exists() {
                room.takt(&["isolate", "undo", "--name", "killed"]).expect(0);
            }
            let different = changes(&before, &snapshot());
            always(different.is_empty() && !Linux::journal().exists(), || format!("after {delay} ms: {different:#?}"));
        }
    });
}

/// Commands in any order, half of them killed at any instant, with two isolations at once where there are CPUs for it. `TAKT_ISOLATIONS` is the number of
/// sequences.
#[test]
fn random_sequences() {
    let count: u64 = std::env::var("TAKT_ISOLATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    let seed = takt_testing::seed();
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, before) = (Room::new(), snapshot());
        let _undo = Undo;
        let last = takt_linux::rt::affinity(0).unwrap().iter().last().unwrap();
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = sleeper.id().to_string();
        let others = last.saturating_sub(1).max(1).to_string();
        let lists: Vec<(&str, String)> = match last {
            1 => vec![("a", last.to_string())],
            _ => vec![("a", last.to_string()), ("b", others)],
        };
        for sequence in 0..count {
            let draw = |bound: u64, step: u64, what: u64| draw_up_to(bound, seed, sequence * 100 + step, what);
            for step in 0..4 {
                let (name, cpus) = &lists[draw(lists.len() as u64 - 1, step, 0) as usize];
                let command: &[&str] = match draw(3, step, 1) {
                    0 | 1 => &["create", "--cpus", cpus, "--name", name, "--with", "swap"],
                    2 => &["undo", "--name", name],
                    _ => &["move", &pid, "--name", name],
                };
                let running = room.start(&[&["isolate"], command].concat());
                if draw(1, step, 2) == 0 {
                    pause(draw(150, step, 3));
                    running.kill_and_wait();
                } else {
                    let (_, done) = running.wait_unchecked();
                    // A name that is taken or unknown is refused, and nothing else.
                    always([0, 2, 3].contains(&done.code()), || format!("{command:?}: {}", done.stderr));
                }
            }
            room.takt(&["doctor", "--clean"]).expect(0);
            room.takt(&["isolate", "undo", "--all"]).expect(0);
            let different = changes(&before, &snapshot());
            always(different.is_empty() && !Linux::journal().exists(), || {
                format!("sequence {sequence}, TAKT_SEED={seed}: {different:#?}")
            });
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    });
}

/// A schedule on the last CPU, whose process reports its CPUs.
const SCHEDULE: &str = "\
policy: edf
cpus: LAST
tasks:
- {name: a, period: 20ms, runtime: 5ms, init: yes,
   cmd: 'grep Cpus_allowed_list /proc/self/status > allowed; exec takt burn --runtime 1ms'}
";

#[test]
fn a_run_has_its_cpus_to_itself_and_gives_them_back() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, before, cpu) = (Room::with(&SCHEDULE.replace("LAST", &last())), snapshot(), last());
        let _undo = Undo;
        // A task that may run everywhere, and must not meanwhile.
        let mut beside = Command::new("sleep").arg("1000").spawn().unwrap();
        let cpus_of = |pid: u32| Linux::look().thread(pid as i32).unwrap().cpus.to_string();
        let own = cpus_of(beside.id());
        for killed in [false, true] {
            let running = room.start(&["run", "w.yaml", "--isolate", "--json", "--duration", "700ms"]);
            let pid = running.pid();
            until("its process is in the set", || {
                let groups = crate::common::groups(pid);
                groups.iter().any(|group| group.to_string_lossy().contains("takt-isolate-run-"))
            });
            until("its process has looked", || room.path("allowed").exists() && room.text("allowed").contains('\n'));
            let status = room.takt(&["isolate", "status"]).stdout;
            always(status.contains(", ends with its run"), || status.clone());
            let refused = room.takt(&["isolate", "undo"]).expect(3);
            assert!(refused.stderr.contains(&format!("belongs to process {pid}")), "{}", refused.stderr);
            let left_out = room.takt(&["isolate", "undo", "--all"]).expect(0);
            assert!(left_out.stdout.contains("which undoes it at its end"), "{}", left_out.stdout);
            always(room.takt(&["isolate", "status"]).stdout == status, || "the isolation of a run is undone".into());
            always(!cpus_of(beside.id()).contains(&*cpu), || "a task of the root set keeps the CPU".into());
            assert_eq!(room.text("allowed").trim_end(), format!("Cpus_allowed_list:\t{cpu}"));
            match killed {
                true => drop(running.kill_and_wait()),
                false => {
                    let report = running.wait().json();
                    let notes = report["notes"].to_string();
                    assert!(notes.contains(&format!("CPU {cpu} was isolated for this run")), "{notes}");
                    assert!(report["jobs"]["completed"].as_u64().unwrap() >= 20, "{report}");
                }
            }
            until("all is undone", || !Linux::journal().exists());
            until("no group is left", || crate::common::groups(pid).is_empty());
            let different = changes(&before, &snapshot());
            always(different.is_empty() && cpus_of(beside.id()) == own, || format!("{killed}: {different:#?}"));
            fs::remove_file(room.path("allowed")).unwrap();
        }
        beside.kill().unwrap();
        beside.wait().unwrap();
        let all = room.path("all.yaml");
        fs::write(&all, SCHEDULE.replace("LAST", "all").replace("edf", "g-edf")).unwrap();
        let refused = room.takt(&["run", "all.yaml", "--isolate", "--duration", "1s"]).expect(2);
        assert!(refused.stderr.contains("none would remain"), "{}", refused.stderr);
        let refused = room.takt(&["run", "w.yaml", "--isolate", "--mechanism", "signal"]).expect(2);
        assert!(refused.stderr.contains("needs control groups"), "{}", refused.stderr);
        room.takt(&["run", "w.yaml", "--isolate=cpu"]).expect(2);
        assert!(!room.path("allowed").exists() && !Linux::journal().exists());
    });
}

/// The processes of a run would go to other CPUs, and its figures would be those of another schedule.
#[test]
fn the_cpus_of_a_run_are_not_isolated_beside_it() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, before, cpu) = (Room::with(&SCHEDULE.replace("LAST", &last())), snapshot(), last());
        let _undo = Undo;
        let running = room.start(&["run", "w.yaml", "--json", "--duration", "2s"]);
        until("its process has looked", || room.path("allowed").exists() && room.text("allowed").contains('\n'));
        let refused = room.takt(&["isolate", "create", "--cpus", &cpu]).expect(3);
        assert!(refused.stderr.contains(&format!("CPU {cpu} is in use by w.yaml")), "{}", refused.stderr);
        assert!(refused.stderr.contains("takt run --isolate"), "{}", refused.stderr);
        let scenario = ["latency", "--scenario", "isolated", "--samples", "20", "--rounds", "1"];
        let skipped = room.takt(&scenario).expect(3);
        assert!(skipped.stderr.contains(&format!("CPU {cpu} is in use by w.yaml")), "{}", skipped.stderr);
        let report = running.wait().json();
        assert!(report["jobs"]["completed"].as_u64().unwrap() >= 50, "{report}");
        always(changes(&before, &snapshot()).is_empty(), || "something has changed".into());
    });
}

/// Plants three disturbances of a CPU until its standard input ends: $1 is the mask of the CPU, $2 is takt. A process in SCHED_FIFO that has the CPU for 5 ms of
/// 20; the kernel thread ksmd that scans memory; a work queue of a loop device. Prints a line when they are there.
const PLANT: &str = r#"
ksm=/sys/kernel/mm/ksm wq=/sys/devices/virtual/workqueue/cpumask image=/dev/shm/takt-advice
sleep=$(cat $ksm/sleep_millisecs) pages=$(cat $ksm/pages_to_scan) mask=$(cat $wq) thread=$(pgrep -x ksmd)
smart=$(cat $ksm/smart_scan 2> /dev/null)
restore() {
    kill $hog $memory $writer $class
    echo 0 > $ksm/run; echo $sleep > $ksm/sleep_millisecs; echo $pages > $ksm/pages_to_scan
    [ -z "$smart" ] || echo $smart > $ksm/smart_scan
    chrt -o -p 0 $thread; renice -n 5 -p $thread > /dev/null; taskset -p ffffffff $thread > /dev/null
    echo $mask > $wq
    for worker in $(pgrep kworker/u); do chrt -o -p 0 $worker 2> /dev/null; done
    sleep 0.2; losetup -d $loop; rm -f $image
}
trap restore EXIT
truncate -s 32M $image && loop=$(losetup -f --show $image) || exit 1
chrt -f 60 taskset $1 $2 burn --runtime 5ms --sleep 15ms & hog=$!
python3 -c 'import mmap, os, time
m = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(0, 64 << 20, 4096): m[i:i + 8] = os.urandom(8)
m.madvise(mmap.MADV_MERGEABLE)
time.sleep(300)' & memory=$!
echo 20 > $ksm/sleep_millisecs; echo 1000 > $ksm/pages_to_scan; echo 1 > $ksm/run
[ -z "$smart" ] || echo 0 > $ksm/smart_scan
chrt -f -p 60 $thread; taskset -p $1 $thread > /dev/null
echo $1 > $wq
(while :; do dd if=/dev/zero of=$loop bs=12M count=1 oflag=direct; sleep 0.02; done) > /dev/null 2>&1 & writer=$!
(while :; do for worker in $(pgrep kworker/u); do chrt -f -p 60 $worker; done; sleep 0.1; done) > /dev/null 2>&1 & class=$!
sleep 2
echo planted
cat > /dev/null
"#;

/// The advice names a planted hog, and every step is undone. With `TAKT_ADVICE` (seconds) there are three disturbances whose removals gain different amounts, and
/// the advice has them in that order.
#[test]
fn advice_names_planted_disturbances() {
    let seconds = std::env::var("TAKT_ADVICE").ok();
    let has = |tool: &str| Command::new("which").arg(tool).output().is_ok_and(|found| found.status.success());
    let tools = ["losetup", "python3", "truncate"];
    let three = seconds.is_some() && tools.into_iter().all(has) && Path::new("/sys/kernel/mm/ksm/run").exists();
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        if !has("chrt") || !has("taskset") {
            return skip(Capability::Cpus, "chrt and taskset are not installed");
        }
        let (room, before, cpu) = (Room::new(), snapshot(), last());
        let _undo = Undo;
        let mask = format!("{:x}", 1u64 << cpu.parse::<u32>().unwrap());
        let mut plant = if three {
            let mut script = Command::new("sh");
            script.args(["-c", PLANT, "sh", &mask, TAKT]).stdin(Stdio::piped()).stdout(Stdio::piped());
            script
        } else {
            let mut hog = Command::new("chrt");
            hog.args(["-f", "60", "taskset", &mask, TAKT, "burn", "--runtime", "3ms", "--sleep", "5ms"]);
            hog
        };
        let mut plant = plant.spawn().unwrap();
        if let Some(out) = &mut plant.stdout {
            std::io::Read::read_exact(out, &mut [0; 8]).expect("the disturbances are planted");
        }
        let planted = snapshot();
        let seconds = seconds.as_deref().filter(|_| three).unwrap_or("1");
        let mut args = vec!["isolate", "advise", "--seconds", seconds, "--figure", "mean", "--json"];
        // These are worth nothing here, and take time.
        for step in ["exclusive", "domain", "interrupts", "watchdog", "idle", "frequency"] {
            args.extend(["--without", step]);
        }
        args.extend(match three {
            true => ["--rounds", "10"].iter(),
            false => ["--rounds", "3", "--without", "kernel-threads", "--without", "workqueues"].iter(),
        });
        let done = room.takt(&args);
        // The disturbances go before anything is judged.
        let different = changes(&planted, &snapshot());
        match plant.stdin.take() {
            Some(input) => drop(input),
            None => plant.kill().unwrap(),
        }
        plant.wait().unwrap();
        let advice = done.expect(0).json();
        println!("{advice}");
        always(different.is_empty() && !Linux::journal().exists(), || format!("{different:#?}"));
        let after = changes(&before, &snapshot());
        always(after.is_empty(), || format!("{after:#?}"));
        let steps = advice["added"].as_array().unwrap().iter().filter(|step| step["is_gain"] == true);
        let gain = |step: &Value| step["gain"]["value_ns"].as_i64().unwrap();
        let mut added: Vec<(i64, String)> = steps
            .map(|step| (-gain(step), step["name"].as_str().unwrap().rsplit('+').next().unwrap().to_owned()))
            .collect();
        added.sort_unstable();
        let names: Vec<&str> = added.iter().map(|(_, name)| name.as_str()).collect();
        let wanted: &[&str] = if three { &["tasks", "kernel-threads", "workqueues"] } else { &["tasks"] };
        assert_eq!(names, wanted, "{advice}");
        assert_eq!(advice["steps"][0]["name"], "tasks", "{advice}");
        assert_eq!(advice["advice"], serde_json::json!(wanted), "{advice}");
    });
}

/// The program as another user calls it: a copy that everybody may execute. It is removed at the end.
struct OtherUser(PathBuf);

impl OtherUser {
    fn new() -> Option<OtherUser> {
        let there = Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success());
        let program = std::env::temp_dir().join(format!("takt-isolate-{}", std::process::id()));
        there.then(|| fs::copy(TAKT, &program).map(|_| OtherUser(program)).unwrap())
    }
    /// The exit status, and both outputs.
    fn takt(&self, args: &[&str]) -> (i32, String) {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&self.0).args(args);
        let output = command.current_dir(std::env::temp_dir()).stdin(Stdio::null()).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
        (output.status.code().unwrap_or(-1), said)
    }
}

impl Drop for OtherUser {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Each command of another user is refused with its reason, with an isolation of root and without one, and nothing has changed.
#[test]
fn another_user_is_refused_and_nothing_changes() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let Some(user) = OtherUser::new() else { return skip(Capability::Cpus, "setpriv is not installed") };
        let (room, before, cpu) = (Room::with(&SCHEDULE.replace("LAST", &last())), snapshot(), last());
        let (pid, schedule) = (std::process::id().to_string(), room.path("w.yaml").display().to_string());
        let refused = |args: &[&str], status: i32, reason: &str, settings: &BTreeMap<String, String>| {
            let (code, said) = user.takt(args);
            always(code == status && said.contains(reason), || format!("{args:?}: status {code}: {said}"));
            let different = changes(settings, &snapshot());
            always(different.is_empty(), || format!("{args:?}: {different:#?}"));
        };
        let of_root: [&[&str]; 5] = [
            &["isolate", "create", "--cpus", "0", "--name", "other"],
            &["isolate", "move", &pid],
            &["isolate", "undo", "--all"],
            &["isolate", "advise", "--seconds", "1"],
            &["run", &schedule, "--isolate", "--duration", "100ms"],
        ];
        let latency = |scenario, more: &[&'static str]| {
            [&["latency", "--scenario", scenario, "--samples", "9", "--rounds", "1", "--stress-threads", "1"], more]
                .concat()
        };
        for args in of_root {
            refused(args, 3, "belong to root: nothing was changed", &before);
        }
        refused(&["isolate", "run", "--", "true"], 2, "there is no isolation", &before);
        refused(&["isolate", "verify"], 2, "there is no isolation", &before);
        refused(&["isolate", "status"], 0, "no CPU is isolated", &before);
        refused(
            &latency("set,isolated-fifo", &[]),
            3,
            "isolated-fifo: CPU sets, interrupts and kernel threads belong to root",
            &before,
        );
        let check = ["latency", "--check-order", "--samples", "9", "--rounds", "3", "--stress-threads", "1"];
        refused(&check, 3, "this cannot be checked: idle-fifo: the kernel refuses SCHED_FIFO 50", &before);
        refused(&latency("weight", &[]), 3, "groups of the cpu controller cannot be made", &before);
        refused(&latency("idle", &["--explain"]), 3, "run as root", &before);
        refused(
            &latency("idle,nice,fifo,deadline", &[]),
            0,
            "not measured: nice: the kernel refuses nice -20",
            &before,
        );
        refused(&latency("idle,fifo", &[]), 0, "it needs root, CAP_SYS_NICE or a higher `ulimit -r`", &before);
        refused(
            &latency("idle,deadline", &[]),
            0,
            "not measured: deadline: the kernel refuses SCHED_DEADLINE",
            &before,
        );
        let _undo = Undo;
        room.takt(&["isolate", "create", "--cpus", &cpu, "--name", "test"]).expect(0);
        let isolated = snapshot();
        // A run has not even the CPU of its schedule.
        for args in &of_root[..4] {
            refused(args, 3, "belong to root: nothing was changed", &isolated);
        }
        refused(&["isolate", "run", "--", "true"], 3, "this process cannot enter the isolation", &isolated);
        refused(&["isolate", "status"], 0, &format!("isolation test: CPU {cpu}"), &isolated);
        refused(&["isolate", "verify"], 0, "ok ", &isolated);
        room.takt(&["isolate", "undo"]).expect(0);
        always(changes(&before, &snapshot()).is_empty(), || "something has changed".into());
    });
}

/// All files of an experiment, which agree with each other.
#[test]
fn lateness_is_measured_written_and_compared() {
    on_cpus(|| {
        let room = Room::new();
        let run = |output: &str| {
            room.takt(&[
                "latency",
                "--scenario",
                "idle,fifo,isolated-fifo",
                "--samples",
                "120",
                "--rounds",
                "3",
                "--period",
                "1ms",
                "--stress-threads",
                "4",
                "--json",
                "--output",
                output,
                "--csv",
                "l.csv",
                "--html",
                "l.html",
                "--histogram",
                "h.csv",
                "--tails",
                "t.svg",
            ])
        };
        let first = run("a.json").json();
        for scenario in first["scenarios"].as_array().unwrap() {
            assert_eq!(scenario["count"], 120, "{scenario}");
            let q = |name: &str| scenario["quantiles_ns"][name]["value"].as_i64().unwrap();
            let (min, p50, p99, max) = (scenario["min_ns"].as_i64().unwrap(), q("p50"), q("p99"), q("max"));
            // A wake-up before its instant would be a fault of the measurement.
            assert!(0 < min && min <= p50 && p50 <= p99 && p99 <= max, "{scenario}");
        }
        let lines = room.text("l.csv").lines().count();
        assert_eq!(lines, 1 + 120 * first["scenarios"].as_array().unwrap().len());
        let counted = |line: &str| line.rsplit(',').next().unwrap().parse::<usize>().unwrap_or(0);
        assert_eq!(room.text("h.csv").lines().map(counted).sum::<usize>(), lines - 1);
        for name in ["l.html", "t.svg"] {
            assert!(room.text(name).contains("<title>Tails of the lateness</title>"), "{name}");
        }
        run("b.json");
        let compared = room.takt(&["latency", "compare", "a.json", "b.json", "--json"]);
        assert!([0, 1].contains(&compared.code()));
        let compared: Value = serde_json::from_str(&compared.stdout).unwrap();
        let count = compared["differences"].as_array().unwrap().len();
        assert_eq!(count, 4 * first["scenarios"].as_array().unwrap().len());
        room.takt(&["latency", "compare", "a.json", "l.csv"]).expect(2);
        let same = room.takt(&["latency", "compare", "a.json", "a.json", "--json"]).expect(0).json();
        assert!(same["differences"].as_array().unwrap().iter().all(|d| d["differs"] == false), "{same}");
        always(!Linux::journal().exists(), || "an isolation is left".into());
    });
}

/// The task is where the isolation is, by default and when its CPU is named.
#[test]
fn an_isolated_cpu_is_measured_in_its_isolation() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, cpu) = (Room::new(), last());
        room.takt(&["isolate", "create", "--cpus", &cpu, "--name", "test"]).expect(0);
        let undo = Undo;
        let scenarios =
            ["latency", "--scenario", "idle,isolated", "--samples", "30", "--rounds", "3", "--period", "1ms"];
        for named in [&[][..], &["--cpu", &cpu]] {
            let measured = room.takt(&[&scenarios[..], named, &["--json"]].concat()).json();
            assert!(measured["task"].as_str().unwrap().contains(&format!("CPU {cpu},")), "{measured}");
            assert_eq!(measured["scenarios"][0]["count"], 30, "{measured}");
            let skipped = format!("CPU {cpu} is isolated by `test`");
            assert!(measured["skipped"][0]["reason"].as_str().unwrap().starts_with(&skipped), "{measured}");
            assert!(measured["notes"].to_string().contains("the task is in the isolation `test`"), "{measured}");
        }
        room.takt(&["isolate", "undo", "test"]).expect(0);
        drop(undo);
        always(!Linux::journal().exists(), || "an isolation is left".into());
    });
}

/// A killed experiment leaves no isolation, no load and no measuring process.
#[test]
fn an_experiment_that_is_killed_leaves_nothing() {
    on_cpus(|| {
        if !can_isolate() {
            return;
        }
        let (room, before) = (Room::new(), snapshot());
        let _undo = Undo;
        for signal in [Signal::TERM, Signal::KILL] {
            let command = [
                "latency",
                "--scenario",
                "isolated-fifo",
                "--samples",
                "3000",
                "--rounds",
                "2",
                "--stress-threads",
                "2",
                "--echo",
                "udp",
            ];
            let run: Running = room.start(&command);
            until("the CPU is isolated", || Linux::journal().exists());
            pause(150);
            run.signal(signal);
            let (_, done) = run.wait_unchecked();
            assert!(signal == Signal::KILL || done.code() == 130, "{}", done.stderr);
            until("all is undone", || !Linux::journal().exists());
            until("its processes have ended", || {
                let named = |pid: i32| {
                    fs::read(format!("/proc/{pid}/cmdline"))
                        .is_ok_and(|line| line.windows(9).any(|w| w == b"__latency"))
                };
                crate::common::find_processes(named).is_empty()
            });
            let different = changes(&before, &snapshot());
            always(different.is_empty(), || format!("{different:#?}"));
        }
    });
}
