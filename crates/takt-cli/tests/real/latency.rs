//! Planted disturbances that `takt latency --explain` has to name.

use crate::common::{Room, attempts, ensure, find_processes, groups, has_cpus, kill, pause, until, watchers};
use crate::machine::{Capability, always, on_cpus, skip};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_linux::timer::{self, Timer};
use takt_linux::tracing::Instance;
use takt_linux::{Layout, RunId};

/// Whether the kernel's trace can be read here; says so if not.
fn can_explain() -> bool {
    let found = RunId::new()
        .map_err(|e| e.to_string())
        .and_then(|run| Instance::create(&run, 0, 64).map(drop).map_err(|e| e.reason));
    match found {
        Ok(()) if rt::rt_allowed() && has_cpus(2) => true,
        Ok(()) => {
            let lacks = if rt::rt_allowed() { Capability::Cpus } else { Capability::RealTime };
            skip(lacks, "needs the right to real-time classes and two CPUs");
            false
        }
        Err(why) => {
            skip(Capability::Tracefs, &why);
            false
        }
    }
}

fn last() -> usize {
    rt::affinity(0).unwrap().iter().last().unwrap()
}

/// Runs something beside a planted thread on the last CPU, whose step is repeated until then.
fn beside<T>(name: &str, class: Class, mut step: impl FnMut() + Send, run: impl FnOnce() -> T) -> T {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let planted = || {
            rt::set_affinity(0, &CpuSet::single(last())).unwrap();
            rt::set_class(0, class).unwrap();
            while !end.load(Ordering::Relaxed) {
                step();
            }
        };
        thread::Builder::new().name(name.into()).spawn_scoped(scope, planted).unwrap();
        // Also when an assertion fails.
        let _ends = Ends(&end);
        run()
    })
}

struct Ends<'a>(&'a AtomicBool);
impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread at SCHED_FIFO 70 that has the CPU for 3 of 10 ms.
fn hog() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3) {}
    thread::sleep(Duration::from_millis(7));
}

/// Timers that expire at one instant, again and again: a millisecond in one interrupt, and far more than a busy host delays a timer.
fn storm() -> impl FnMut() + Send {
    const TIMERS: u64 = 4000;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(TIMERS + 1000);
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).unwrap();
    }
    let timers: Vec<Timer> = (0..TIMERS.min(wanted - wanted / 5)).map(|_| Timer::new().unwrap()).collect();
    move || {
        let at = timer::now() + Span::from_ms(8);
        timers.iter().for_each(|timer| timer.arm(at).unwrap());
        thread::sleep(Duration::from_millis(10));
    }
}

const CASES: usize = 10;

/// The ten latest samples of ten rounds.
fn explained(room: &Room, scenario: &str, more: &[&str]) -> Vec<Value> {
    let samples = (CASES * 25).to_string();
    let words =
        ["latency", "--scenario", scenario, "--samples", &samples, "--rounds", "10", "--explain", "10", "--json"];
    let json = room.takt(&[&words[..], more].concat()).expect(0).json();
    json["scenarios"][0]["worst"].as_array().unwrap_or_else(|| panic!("{json}")).clone()
}

/// In all ten cases a part of the kind is the largest, or it names the thread.
fn named(worst: &[Value], kind: &str, thread: Option<&str>) -> Result<(), String> {
    let is = |part: &Value| part["kind"] == kind && thread.is_none_or(|name| part["thread"][1] == name);
    let count = worst.iter().filter(|one| one["why"]["parts"].as_array().is_some_and(|parts| is(&parts[0]))).count();
    ensure(count == CASES && worst.len() == CASES, || format!("{kind}: {count} of {CASES}: {worst:#?}"))
}

#[test]
fn a_planted_hog_is_named() {
    on_cpus(|| {
        if can_explain() {
            attempts(3, || {
                let worst = beside("planted-hog", Class::Fifo(70), hog, || explained(&Room::new(), "idle-fifo", &[]));
                named(&worst, "preempted", Some("planted-hog"))
            });
        }
    });
}

#[test]
fn a_planted_storm_of_timers_is_named() {
    on_cpus(|| {
        if can_explain() {
            attempts(3, || {
                let storm = storm();
                let worst =
                    beside("planted-storm", Class::Fifo(40), storm, || explained(&Room::new(), "idle-fifo", &[]));
                // The host, or a program that this test has not planted, can delay the timer interrupt by more than that.
                let late = |one: &&Value| one["why"]["parts"][0]["kind"] == "timer-late";
                let others = worst.iter().filter(late).count();
                ensure(others <= 3, || format!("{others} of {CASES} late timer interrupts: {worst:#?}"))?;
                let named = |one: &Value| one["why"]["parts"][0]["kind"] == "interrupts";
                let count = worst.iter().filter(|one| named(one)).count();
                ensure(count + others == CASES, || format!("interrupts: {count} of {CASES}: {worst:#?}"))
            });
        }
    });
}

/// A group with a quota of 10 ms in 50 ms. It is removed when this is dropped.
struct Quota(PathBuf);

impl Quota {
    fn new() -> Result<Quota, String> {
        let layout = Layout::read().map_err(|e| e.to_string())?;
        let v1 = layout.cpu.is_some();
        let parent = layout.cpu.or(layout.unified).ok_or("no cpu controller")?.own;
        let group = Quota(parent.join(format!("takt-test-quota-{}", std::process::id())));
        fs::create_dir(&group.0).map_err(|e| e.to_string())?;
        let write = |file: &str, text: &str| fs::write(group.0.join(file), text).map_err(|e| format!("{file}: {e}"));
        if v1 {
            write("cpu.cfs_period_us", "50000")?;
            write("cpu.cfs_quota_us", "10000")?;
        } else {
            write("cpu.max", "10000 50000")?;
        }
        Ok(group)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_planted_quota_is_named() {
    on_cpus(|| {
        if !can_explain() {
            return;
        }
        let quota = match Quota::new() {
            Ok(quota) => quota,
            Err(why) => return skip(Capability::V1, &format!("no quota: {why}")),
        };
        attempts(3, || {
            let room = Room::new();
            let takt = crate::common::TAKT;
            let group = quota.0.display();
            let script = format!(
                "echo 0 > {group}/cgroup.procs && exec {takt} latency --scenario stressed --stress-threads 1 --samples 1500 \
                 --rounds 3 --explain 10 --json"
            );
            let output = std::process::Command::new("sh").args(["-c", &script]).current_dir(room.path(".")).output();
            let output = output.map_err(|e| e.to_string())?;
            let json: Value = serde_json::from_slice(&output.stdout)
                .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stderr)))?;
            named(json["scenarios"][0]["worst"].as_array().map_or(&[], Vec::as_slice), "quota", None)
        });
    });
}

/// An experiment ends at a signal, and not with its round, which would take 50 minutes.
#[test]
fn a_signal_ends_the_round() {
    on_cpus(|| {
        if !can_explain() {
            return;
        }
        for scenario in ["idle", "windows", "isolated-fifo", "cyclictest"] {
            if scenario == "cyclictest" && !has_peer() {
                continue;
            }
            let words = ["latency", "--scenario", scenario, "--samples", "3000000", "--rounds", "1"];
            let run = Room::new().start(&words);
            let list = format!("/proc/{0}/task/{0}/children", run.pid());
            until("it measures", || fs::read_to_string(&list).is_ok_and(|children| children.contains(' ')));
            thread::sleep(Duration::from_millis(300));
            run.signal(Signal::TERM);
            let done = run.wait().expect(130);
            assert!(
                done.stderr.contains("interrupted: the machine is as it was before"),
                "{scenario}: {}",
                done.stderr
            );
            always(!takt_linux::isolate::Linux::journal().exists(), || "an isolation is left".into());
        }
    });
}

/// Whether cyclictest can measure here; says so if not.
fn has_peer() -> bool {
    for (capability, is_there) in [
        (Capability::Cyclictest, Capability::Cyclictest.is_present()),
        (Capability::RealTime, rt::rt_allowed()),
        (Capability::Cpus, has_cpus(2)),
    ] {
        if !is_there {
            skip(capability, "cyclictest is not there, or may not have a real-time class, or a CPU of its own");
            return false;
        }
    }
    true
}

#[test]
fn cyclictest_is_measured_in_turn() {
    on_cpus(|| {
        if !has_peer() {
            return;
        }
        let words = ["latency", "--check-cyclictest", "--samples", "300", "--rounds", "3", "--json"];
        let done = Room::new().takt(&words);
        let json: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stderr));
        let figures = |index: usize| &json["scenarios"][index];
        // It has skipped instants that had passed, and has measured as many others.
        assert!(figures(1)["scenario"] == "cyclictest" && figures(1)["count"] == 300, "{json}");
        let own = figures(0)["count"].as_i64().unwrap();
        assert!(figures(0)["scenario"] == "idle-fifo" && (1..=300).contains(&own), "{json}");
        // Nanoseconds, in which no wake-up takes less than 100 or more than its round.
        for index in [0, 1] {
            let (min, max) = (&figures(index)["min_ns"], &figures(index)["quantiles_ns"]["max"]["value"]);
            assert!(min.as_i64() > Some(100) && max.as_i64() < Some(10_000_000_000), "{json}");
        }
        let middle = |index: usize| figures(index)["quantiles_ns"]["p50"]["value"].as_i64().unwrap();
        let difference = &json["checks"][0]["measured_ns"];
        assert_eq!(difference["value"], middle(0) - middle(1), "{json}");
        let within = difference["low"].as_i64() >= Some(-2000) && difference["high"].as_i64() <= Some(2000);
        assert_eq!((done.code(), &json["checks"][0]["holds"]), (i32::from(!within), &Value::Bool(within)), "{json}");
    });
}

/// cyclictest would keep its real-time priority for the rest of its round.
#[test]
fn a_killed_experiment_leaves_no_cyclictest() {
    on_cpus(|| {
        if !has_peer() {
            return;
        }
        let room = Room::new();
        let run = room.start(&["latency", "--scenario", "cyclictest", "--samples", "3000000", "--rounds", "3"]);
        let children = |pid: i32| -> Vec<i32> {
            let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
        };
        let is_peer =
            |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "cyclictest");
        let found = || children(run.pid()).into_iter().find(|pid| is_peer(*pid));
        until("cyclictest measures", || found().is_some());
        let peer = found().unwrap();
        run.kill_and_wait();
        until("cyclictest has ended", || !is_peer(peer));
    });
}

/// A killed experiment leaves no instance of tracing, also where its watcher was killed with it.
#[test]
fn a_killed_experiment_leaves_no_instance() {
    on_cpus(|| {
        if !can_explain() {
            return;
        }
        let instances = |pid: i32| takt_linux::tracing::instances().iter().filter(|run| run.pid() == pid).count();
        for with_watcher in [false, true] {
            let room = Room::new();
            let run = room.start(&["latency", "--scenario", "idle", "--samples", "5000", "--explain"]);
            let pid = run.pid();
            until("it measures", || !crate::common::watchers(pid).is_empty() && instances(pid) > 0);
            thread::sleep(Duration::from_millis(300));
            if with_watcher {
                crate::common::watchers(pid).into_iter().for_each(|watcher| crate::common::kill(watcher, Signal::KILL));
            }
            run.kill_and_wait();
            if with_watcher {
                always(instances(pid) > 0, || "the instance is gone without a watcher".into());
                room.takt(&["doctor", "--clean"]).expect(0);
            }
            until("the instance is removed", || instances(pid) == 0);
        }
    });
}

/// The pages of a capture are read. With `UPDATE=1` they renew the files that the tests of `takt-latency` explain: pages of the ring around the latest
/// sample of a thread beside a planted disturbance.
#[test]
fn captured_traces_are_read() {
    on_cpus(|| {
        if !can_explain() {
            return;
        }
        let room = Room::new();
        let files = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../takt-latency/tests/traces");
        let folder = if std::env::var_os("UPDATE").is_some() { files } else { room.path(".") };
        capture(&folder, "hog", || beside("planted-hog", Class::Fifo(70), hog, wake_ups));
        capture(&folder, "storm", || beside("planted-storm", Class::Fifo(40), storm(), wake_ups));
        let (header, events) =
            (fs::read_to_string(folder.join("page.txt")), fs::read_to_string(folder.join("events.txt")));
        let ring = fs::read(folder.join("hog.ring")).unwrap();
        let pages: Vec<(usize, &[u8])> = ring.chunks(4096).map(|page| (last(), page)).collect();
        let trace = takt_latency::KernelTrace::read(&header.unwrap(), &events.unwrap(), &pages).unwrap();
        assert!(!trace.events.is_empty());
    });
}

/// The planned instants and the lateness of 200 wake-ups, and the thread.
fn wake_ups() -> (Vec<(i64, i64)>, i32) {
    thread::sleep(Duration::from_millis(5));
    let measured = || {
        rt::set_affinity(0, &CpuSet::single(last())).unwrap();
        rt::set_class(0, Class::Fifo(50)).unwrap();
        let begin = timer::now() + Span::from_ms(1);
        let one = |index: i64| {
            let planned = begin + Span::from_us(531) * index;
            let wait = Timer::new().unwrap();
            wait.arm(planned).unwrap();
            while !wait.fired().unwrap() {
                let mut polled = [rustix::event::PollFd::new(&wait, rustix::event::PollFlags::IN)];
                let _ = rustix::event::poll(&mut polled, None);
            }
            (planned.ns(), (timer::now() - planned).ns())
        };
        ((0..200).map(one).collect(), rustix::thread::gettid().as_raw_nonzero().get())
    };
    thread::scope(|scope| scope.spawn(measured).join().unwrap())
}

fn capture(folder: &std::path::Path, name: &str, run: impl FnOnce() -> (Vec<(i64, i64)>, i32)) {
    let (id, cpu) = (RunId::new().unwrap(), last());
    let instance = Instance::create(&id, cpu, 4096).unwrap();
    let known = takt_latency::EVENTS.into_iter().filter(|event| instance.enable(event).unwrap());
    let described: String = known.map(|event| instance.format(event).unwrap()).collect();
    instance.start().unwrap();
    let (samples, pid) = run();
    instance.stop().unwrap();
    let (planned, late) = samples.into_iter().max_by_key(|sample| sample.1).unwrap();
    let pages: Vec<Vec<u8>> =
        instance.pages().unwrap().into_iter().filter(|(of, _)| *of == cpu).map(|(_, page)| page).collect();
    let begin = |page: &Vec<u8>| i64::from_le_bytes(page[..8].try_into().unwrap());
    let near = |(index, page): (usize, &Vec<u8>)| {
        let ends = pages.get(index + 1).is_none_or(|next| begin(next) > planned - 300_000);
        (ends && begin(page) < planned + late).then(|| page.clone())
    };
    let kept: Vec<u8> = pages.iter().enumerate().filter_map(near).flatten().collect();
    fs::write(folder.join(format!("{name}.ring")), kept).unwrap();
    fs::write(folder.join(format!("{name}.txt")), format!("{planned} {late} {pid} {cpu}\n")).unwrap();
    fs::write(folder.join("page.txt"), instance.header().unwrap()).unwrap();
    fs::write(folder.join("events.txt"), described).unwrap();
}

/// The variable by which the processes of a killed experiment are found.
const MARK: &str = "TAKT_TEST_EXPERIMENT";

/// The names of all scenarios, as the help lists them.
fn scenarios(room: &Room) -> Vec<String> {
    let help = room.takt(&["latency", "--help"]).expect(0).stdout;
    let lines =
        help.lines().skip_while(|line| !line.contains("--scenario")).take_while(|line| !line.contains("--period"));
    let names = lines.filter_map(|line| Some(line.trim().strip_prefix("- ")?.split_once(':')?.0.to_owned()));
    names.filter(|name| name != "cyclictest" || has_peer()).collect()
}

/// A killed experiment leaves no group in any hierarchy, no process and no setting: its watcher sees to it, or `takt doctor --clean`.
#[test]
fn a_killed_experiment_leaves_nothing_in_any_scenario() {
    let kills: u64 = std::env::var("TAKT_LATENCY_KILLS").map_or(6, |kills| kills.parse().expect("a number of kills"));
    let seed = takt_testing::seed();
    on_cpus(|| {
        if !super::isolate::can_isolate() || !rt::rt_allowed() {
            return;
        }
        let room = Room::new();
        // Groups of the cpu controller come first.
        let mut names = scenarios(&room);
        names.sort_by_key(|name| !["weight", "quota", "container"].contains(&name.as_str()));
        assert!(names.len() > 15, "{names:?}");
        let before = super::isolate::snapshot();
        let (mut groups_seen, mut kills_of) = (0, std::collections::BTreeMap::<String, u32>::new());
        for round in 0..kills {
            let name = &names[(round as usize) % names.len()];
            let mark = format!("{}-{round}", std::process::id());
            let args = ["latency", "--scenario", name, "--samples", "60000", "--rounds", "1", "--stress-threads", "2"];
            let mut running = crate::common::Running::start(room.command(&args).env(MARK, &mark));
            let pid = running.pid();
            crate::common::until_in(&mut running, "it has its watcher", || {
                if watchers(pid).is_empty() { Err("none".into()) } else { Ok(()) }
            });
            pause(takt_core::rng::draw_up_to(1200, seed, 13, round));
            groups_seen += usize::from(!groups(pid).is_empty());
            *kills_of.entry(name.clone()).or_default() += 1;
            // Every second kill of each scenario.
            let watched = (round / names.len() as u64 + round).is_multiple_of(2);
            if !watched {
                watchers(pid).into_iter().for_each(|watcher| kill(watcher, Signal::KILL));
            }
            running.signal(Signal::KILL);
            running.wait_unchecked();
            if !watched {
                room.takt(&["doctor", "--clean"]).expect(0);
            }
            let entry = format!("{MARK}={mark}");
            let marked = |text: Vec<u8>| text.split(|byte| *byte == 0).any(|found| found == entry.as_bytes());
            let processes = || find_processes(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(marked));
            until(&format!("{name}, watched: {watched}: all is gone"), || {
                groups(pid).is_empty() && processes().is_empty() && watchers(pid).is_empty()
            });
            let lives = fs::read_dir("/run/takt").into_iter().flatten().flatten();
            let lives: Vec<_> = lives
                .map(|entry| entry.file_name())
                .filter(|name| name.to_string_lossy().starts_with(&format!("{pid}-")))
                .collect();
            always(lives.is_empty(), || format!("{name}, watched: {watched}: {lives:?}"));
            let changed = super::isolate::changes(&before, &super::isolate::snapshot());
            always(changed.is_empty(), || format!("{name}, watched: {watched}: {changed:#?}"));
        }
        println!("{kills} kills in {} scenarios, {groups_seen} of them with groups: nothing was left", kills_of.len());
        println!("{kills_of:?}");
    });
}
