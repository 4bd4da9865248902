//! Limits of the process and outputs that fail, around runs: each is named, and nothing is left.

use crate::common::{Done, Room, Running, groups, mechanisms, processes, starters, until, watchers};
use crate::machine::{Capability, always, on_cpus, skip};
use std::fs;
use std::process::Command;

const QUIET: &str = "policy: edf\ncpus: 0\ntasks:\n- {name: a, cmd: exec sleep 60, period: 1ms, runtime: 200us}\n";

/// A run after the words of a shell that change its surroundings, with `after` behind its arguments.
fn started(room: &Room, before: &str, args: &[&str], after: &str) -> Running {
    let takt = room.command(&[]).get_program().to_owned();
    let script = format!("{before} exec \"$0\" \"$@\" {after}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(takt).args(args).current_dir(room.path(""));
    Running::start(&mut shell)
}

fn within(room: &Room, before: &str, args: &[&str]) -> Done {
    started(room, before, args, "").wait()
}

/// Many equal processes.
fn many(tasks: usize) -> String {
    let task = |n| format!("- {{name: t{n}, cmd: exec sleep 60, period: 100ms, runtime: 1ms}}\n");
    format!("policy: edf\ncpus: 0\ntasks:\n{}", (0..tasks).map(task).collect::<String>())
}

/// The number that a message names suffices.
#[test]
fn the_limit_of_open_files_is_named_with_what_suffices() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            for tasks in [1, 12] {
                let room = Room::with(&many(tasks));
                let run = ["run", "w.yaml", "--duration", "100ms", "--mechanism", mechanism, "--json"];
                let done = within(&room, "ulimit -n 16;", &run).expect(3);
                assert!(done.stderr.contains("RLIMIT_NOFILE"), "{}", done.stderr);
                let needed = done.stderr.split("needs ").nth(1).and_then(|rest| rest.split(' ').next());
                let needed: usize = needed.and_then(|number| number.parse().ok()).expect("a number");
                println!("{mechanism}, {tasks} processes: {needed}");
                within(&room, &format!("ulimit -n {needed};"), &run).expect(0);
                let few = within(&room, &format!("ulimit -n {};", needed - 1), &run).expect(3);
                assert!(few.stderr.contains("RLIMIT_NOFILE"), "{}", few.stderr);
            }
        }
    });
}

#[test]
fn a_limit_of_file_sizes_ends_a_run_with_its_name() {
    on_cpus(|| {
        let room = Room::with(QUIET);
        // 32 KiB, in blocks of 512 bytes.
        let run = ["run", "w.yaml", "--duration", "60s", "--trace", "t.jsonl", "--json"];
        let done = within(&room, "ulimit -f 64;", &run).expect(1);
        assert!(done.stderr.contains("[unwritable-file]") && done.stderr.contains("RLIMIT_FSIZE"), "{}", done.stderr);
        // The part that was written can be read.
        room.takt(&["trace", "show", "t.jsonl"]).expect(0);
    });
}

/// The kernel's signal at the soft limit of CPU time ends a run as SIGTERM does, with the name of the limit.
#[test]
fn a_limit_of_cpu_time_ends_a_run_with_its_name() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(QUIET);
            let run = ["run", "w.yaml", "--duration", "60s", "--trace", "t.jsonl", "--mechanism", mechanism];
            let running = started(&room, "ulimit -S -t 1000;", &run, "");
            until("the run writes its trace", || fs::metadata(room.path("t.jsonl")).is_ok_and(|known| known.len() > 0));
            running.signal(rustix::process::Signal::XCPU);
            let done = running.wait().expect(3);
            assert!(done.stderr.contains("RLIMIT_CPU"), "{mechanism}: {}", done.stderr);
            assert!(room.trace("t.jsonl").footer.is_some(), "{mechanism}: the trace has its end");
        }
    });
}

/// The watcher has the same small stack, and does its work.
#[test]
fn a_small_stack_suffices_for_a_run_and_its_watcher() {
    on_cpus(|| {
        let room = Room::with(QUIET);
        within(&room, "ulimit -s 64;", &["run", "w.yaml", "--duration", "100ms"]).expect(0);
        let running = started(&room, "ulimit -s 64;", &["run", "w.yaml", "--duration", "60s", "--trace", "t.csv"], "");
        until("the run has begun", || !room.text("t.csv").is_empty());
        running.kill_and_wait();
    });
}

#[test]
fn a_run_whose_standard_output_is_closed_fails_and_keeps_its_files() {
    on_cpus(|| {
        let room = Room::with(QUIET);
        for more in ["--json", "--strict"] {
            let run = ["run", "w.yaml", "--duration", "100ms", "--trace", "t.jsonl", "--record", "r.steps", more];
            let done = started(&room, "", &run, ">&-").wait().expect(1);
            assert!(done.stderr.contains("standard output: it is closed"), "{}", done.stderr);
            assert!(room.trace("t.jsonl").footer.is_some(), "the trace has its end");
            room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).expect(0);
        }
    });
}

/// A second run, or another command, does not touch the trace of a run.
#[test]
fn two_runs_do_not_write_one_file() {
    on_cpus(|| {
        for series in [&[][..], &["--trace-size", "64K"]] {
            let room = Room::with(QUIET);
            let run = [&["run", "w.yaml", "--share-cpus", "--trace", "t.jsonl"], series].concat();
            let first = room.start(&[&run[..], &["--duration", "60s"]].concat());
            let size = || fs::metadata(room.path("t.jsonl")).map_or(0, |known| known.len());
            until("the run writes its trace", || size() > 0);
            for other in
                [&run[..], &["sim", "w.yaml", "--trace", "t.jsonl"], &["trace", "convert", "t.jsonl", "t.jsonl"]]
            {
                let done = room.takt(&[other, if other[0] == "run" { &["--duration", "1s"] } else { &[] }].concat());
                let status = if other[0] == "trace" { 2 } else { 3 };
                let done = done.expect(status);
                let own = format!("process {}", first.pid());
                assert!(status == 2 || done.stderr.contains("[file-in-use]"), "{}", done.stderr);
                assert!(status == 2 || done.stderr.contains(&own), "{}", done.stderr);
            }
            if !series.is_empty() {
                until("the trace has another file", || room.path("t.2.jsonl").exists());
                room.takt(&["sim", "w.yaml", "--trace", "t.jsonl"]).expect(3);
            }
            first.signal(rustix::process::Signal::TERM);
            first.wait().expect(0);
            assert!(room.trace("t.jsonl").footer.is_some());
        }
    });
}

/// A full `/run` takes neither a socket nor a journal.
#[test]
fn a_full_run_directory_is_named() {
    on_cpus(|| {
        if !Capability::Mounts.is_present() {
            return skip(Capability::Mounts, "a /run of one's own needs root and unshare");
        }
        let room = Room::with(QUIET);
        let full = "mount -t tmpfs -o size=4k,nr_inodes=3 tmpfs /run && : > /run/a && { : > /run/b; } 2>/dev/null;";
        let takt = room.command(&[]).get_program().to_owned();
        let inside = |args: &[&str]| {
            let mut shell = Command::new("unshare");
            shell.args(["-m", "sh", "-c", &format!("{full} exec \"$0\" \"$@\"")]).arg(&takt).args(args);
            Running::start(shell.current_dir(room.path(""))).wait()
        };
        let run = inside(&["run", "w.yaml", "--duration", "100ms"]).expect(0);
        assert!(run.stdout.contains("/run") && run.stdout.contains("No space left"), "{}", run.stdout);
        for args in [&["isolate", "create", "--cpus", "0"][..], &["run", "w.yaml", "--isolate", "--duration", "1s"]] {
            let done = inside(args).expect(3);
            assert!(!done.stderr.contains("missing-capability"), "{}", done.stderr);
            let says = ["[unwritable-file]", "No space left", "df /run"];
            assert!(says.iter().all(|text| done.stderr.contains(text)), "{}", done.stderr);
        }
    });
}

/// Random limits around random commands: each ends with a status of its own and a reason, and leaves nothing.
#[test]
fn random_limits() {
    const RUNS: u64 = 6;
    on_cpus(|| {
        let runs = std::env::var("TAKT_LIMITS").map_or(RUNS, |runs| runs.parse().expect("TAKT_LIMITS is a number"));
        let seed = takt_testing::seed();
        println!("repeat with: TAKT_LIMITS={runs} TAKT_SEED={seed}");
        let mut state = seed | 1;
        let mut below = |most: u64| {
            // xorshift64* (Vigna 2016).
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
        };
        let mut ends = std::collections::BTreeMap::new();
        for number in 0..runs {
            let tasks = 1 + below(8) as usize;
            let room = Room::with(&many(tasks));
            let limit = match below(6) {
                0 => format!("ulimit -n {};", 4 + below(120)),
                1 => format!("ulimit -f {};", 8 + below(200)),
                2 => format!("ulimit -s {};", 64 << below(6)),
                3 => format!("ulimit -v {};", 20_000 + below(400_000)),
                4 => format!("ulimit -l {};", below(200)),
                _ => format!("ulimit -t {};", 1 + below(3)),
            };
            let mut args = vec!["run", "w.yaml", "--duration", "300ms"];
            args.extend(
                [&["--trace", "t.jsonl"][..], &["--jobs", "t.csv"], &["--gantt", "t.svg"], &["--json"]]
                    [below(4) as usize],
            );
            args.extend([&[][..], &["--record", "r.steps"], &["--no-control"]][below(3) as usize]);
            let after = ["", "", ">&-", ">/dev/full"][below(4) as usize];
            let running = started(&room, &limit, &args, after);
            let (pid, done) = running.wait_unchecked();
            let what =
                format!("{number}: {limit} {args:?} {after}, {tasks} processes: {} {}", done.status, done.stderr);
            // A run that the kernel or an exhausted memory has ended leaves its groups to the watcher, and no other run does.
            let (left, dies) = (groups(pid), done.status.code().is_none() || done.stderr.contains("[out-of-memory]"));
            always(left.is_empty() || dies, || format!("{left:?} are left by {what}"));
            let ended = || groups(pid).is_empty() && processes(pid).is_empty() && watchers(pid).is_empty();
            until("nothing is left", || ended() && starters(pid).is_empty());
            // The loader of programs, and an exhausted memory, end a process before it can say more. So does the kernel, where the program is
            // larger than the limit.
            let is_loader = done.stderr.contains("shared librar") || done.stderr.contains("cannot allocate");
            let status = done.status.code();
            let is_too_large = || !within(&room, &limit, &["--version"]).status.success();
            always(matches!(status, Some(0..=3)) || is_loader || is_too_large(), || format!("{} {what}", done.status));
            always(status == Some(0) || !done.stderr.is_empty() || is_too_large(), || what.clone());
            *ends.entry(status).or_insert(0) += 1;
        }
        println!("{runs} runs by status: {ends:?}");
    });
}
