//! Every bench runs through in its quick form and says what it has measured. Times are never asserted here.

mod machine;

use machine::{Capability, on_cpus, skip};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One bench at a time: they all want the same CPU.
static CPU: Mutex<()> = Mutex::new(());

/// A bench that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(600);

fn takt(args: &[&str]) -> Output {
    let _turn = CPU.lock().unwrap_or_else(|e| e.into_inner());
    let mut command = Command::new(env!("CARGO_BIN_EXE_takt"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    // Its output is a few kilobytes, which the pipes hold.
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("takt {args:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Runs a bench; `None` on a machine that cannot, which the bench says itself with status 3 and a fix.
fn bench(args: &[&str]) -> Option<serde_json::Value> {
    let output = takt(&[&["bench"], args, &["--quick", "--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        assert!(said.contains("fix: "), "{said}");
        skip(Capability::RealTime, &said);
        return None;
    }
    assert!(output.status.success(), "{}: {said}", output.status);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["rounds"], &json["quick"]), (&1.into(), &true.into()));
    for key in ["cpu_model", "kernel", "load_before", "load_after"] {
        assert!(json["machine"][key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    assert!(!json["limits"].as_array().unwrap().is_empty());
    Some(json)
}

/// Benches that run processes: seconds each.
mod real {
    use super::{bench, on_cpus, takt as takt_of};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// The view of a run is drawn in a terminal, and three runs of each round are compared.
    #[test]
    fn top_watches_one_of_three_runs() {
        on_cpus(|| {
            let Some(json) = bench(&["top", "--tasks", "5"]) else { return };
            let results = &json["results"];
            assert_eq!(results["tasks"], 5);
            for (run, name) in results["runs"].as_array().unwrap().iter().zip(["alone", "control", "watched"]) {
                assert_eq!(run["run"], name);
                let round = &run["rounds"][0];
                assert!(round["lateness_ns"]["count"].as_u64() > Some(100), "{run}");
                assert_eq!(round["top_cpu_ns_per_s"].as_i64().is_some(), name == "watched", "{run}");
            }
            assert_eq!(json["limits"].as_array().map(Vec::len), Some(2));
        });
    }

    /// Each reload has taken over, and the runs without reloads had none.
    #[test]
    fn reload_changes_one_of_three_runs() {
        on_cpus(|| {
            let Some(json) = bench(&["reload", "--reloads", "5"]) else { return };
            let results = &json["results"];
            for (run, name) in results["runs"].as_array().unwrap().iter().zip(["alone", "control", "reloaded"]) {
                assert_eq!(run["run"], name);
                let round = &run["rounds"][0];
                assert!(round["lateness_ns"]["count"].as_u64() > Some(100), "{run}");
                assert_eq!(round["tables"], if name == "reloaded" { 5 } else { 0 }, "{run}");
            }
            assert_eq!(json["limits"].as_array().map(Vec::len), Some(1));
        });
    }

    #[test]
    fn latency_sees_windows_begin() {
        on_cpus(|| {
            for more in [&[][..], &["--realtime"]] {
                let Some(json) = bench(&[&["latency"], more].concat()) else { return };
                let series = json["results"]["series"].as_array().unwrap();
                let windows = json["results"]["windows"].as_u64().unwrap();
                for key in ["floor", "bare_wake", "bare_first", "takt_wake", "takt_first"] {
                    let found = series.iter().find(|s| s["name"] == key).unwrap();
                    assert!(found["median_ns"]["count"].as_u64().unwrap() > 0, "{key} saw nothing: {found}");
                }
                let takt = series.iter().find(|s| s["name"] == "takt_first").unwrap();
                let seen = takt["median_ns"]["count"].as_u64().unwrap();
                assert_eq!(seen + takt["unseen"].as_u64().unwrap(), windows);
            }
        });
    }

    #[test]
    fn overhead_compares_both_forms() {
        on_cpus(|| {
            let Some(json) = bench(&["overhead", "--power"]) else { return };
            let cases = json["results"]["cases"].as_array().unwrap();
            for form in ["full", "nine tenths"] {
                assert!(cases.iter().any(|c| c["form"] == form), "{form}");
            }
            for case in cases {
                assert!(case["alone_ns"][0].as_i64().unwrap() > 0);
                for who in ["bare_per_window_ns", "takt_per_window_ns", "power_per_window_ns"] {
                    assert!(case[who]["elapsed"].is_i64() && case[who]["cpu_time"].is_i64(), "{case}");
                }
                // A frequency for each window, over at least the granted time of the work.
                let power = &case["power_per_window_ns"];
                let windows = 100_000_000 / case["window_ns"].as_u64().unwrap();
                let [requested, written] = ["requested", "written"].map(|key| power[key].as_u64().unwrap());
                assert!(requested >= windows / 2 && written > 0 && written <= requested, "{case}");
            }
        });
    }

    #[test]
    fn calls_are_timed_beside_their_floors() {
        on_cpus(|| {
            let Some(json) = bench(&["calls"]) else { return };
            let figures = json["results"]["figures_ns"].as_array().unwrap();
            assert_eq!(figures.len(), 19);
            for figure in figures {
                assert!(
                    figure["figures"]["count"].as_i64() >= Some(190) && figure["figures"]["p50"].as_i64() > Some(0),
                    "{figure}"
                );
            }
        });
    }

    #[test]
    fn startup_counts_descriptors() {
        on_cpus(|| {
            let Some(json) = bench(&["startup", "--large"]) else { return };
            for case in json["results"]["cases"].as_array().unwrap() {
                let large = case["partitions"].as_u64().unwrap() > 500;
                let of_kind = if large { "check_cpu_ns" } else { "plain_loop_ns" };
                for key in
                    ["first_window_ns", of_kind, "startup_ns", "cpu_ns", "descriptors", "peak_rss_kib", "stop_ns"]
                {
                    assert!(case[key].as_i64().unwrap() > 0, "{key} in {case}");
                }
                assert_eq!(case["rounds"][0]["left"], 0, "{case}");
            }
            // Descriptors are counted, not timed: what holds here holds for any number of partitions.
            let limits = json["limits"].as_array().unwrap();
            let descriptors: Vec<_> =
                limits.iter().filter(|l| l["what"].as_str().unwrap().ends_with(": descriptors")).collect();
            assert_eq!(descriptors.len(), 4);
            // A few more may be open for a moment while it starts processes.
            let number =
                |text: &serde_json::Value| text.as_str().unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap();
            assert!(descriptors.iter().all(|l| number(&l["measured"]) <= number(&l["limit"]) + 20), "{descriptors:?}");
        });
    }

    /// The reader has got messages, but not all of them, and only where there were any.
    #[test]
    fn messages_have_a_reader_that_stops() {
        on_cpus(|| {
            let Some(json) = bench(&["messages"]) else { return };
            let windows = json["results"]["windows"].as_u64().unwrap();
            for (run, name) in json["results"]["runs"].as_array().unwrap().iter().zip(["alone", "control", "messages"])
            {
                assert_eq!(run["run"], name);
                let round = &run["rounds"][0];
                assert!(round["lateness_ns"]["count"].as_u64() > Some(100), "{run}");
                let read = round["read"].as_u64().unwrap();
                assert_eq!(read > 0, name == "messages", "{run}");
                assert!(read < windows, "{run}");
            }
        });
    }

    /// Programs that take DEmOS's place: Takt itself, one that writes another schedule, and a release build.
    #[test]
    fn demos_compares_schedules_line_by_line() {
        on_cpus(|| {
            let dir = tempfile::tempdir().unwrap();
            let program = |name: &str, body: &str| {
                let path = dir.path().join(name);
                fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
                path.display().to_string()
            };
            let version = "[ \"$1\" = -V ] && echo 'demos-sched version 1 (debug)' && exit";
            let takt = env!("CARGO_BIN_EXE_takt");
            let same = program("same", &format!("{version}\nexec {takt} demos \"$@\""));
            let Some(json) = bench(&["demos", "--demos", &same]) else { return };
            let cases = json["results"]["cases"].as_array().unwrap();
            assert!(cases.len() >= 3 && cases.iter().all(|case| case["hung"] == 0), "{cases:?}");
            // A machine that stalls can spoil one of them.
            assert!(cases.iter().any(|case| case["same"] == 1), "{cases:?}");
            let line = "     0: cpus=0 cmd='exec other' budget=1";
            let other = program("other", &format!("{version}\necho \"{line}\" > \"$DEMOS_SCHEDULE_LOG\""));
            let file = dir.path().join("w.yaml");
            fs::write(&file, "windows: [{length: 10, cpu: 0, sc_processes: [exec sleep 60]}]").unwrap();
            let file = file.to_str().unwrap();
            let json = bench(&["demos", "--demos", &other, "--length", "20", file]).unwrap();
            let case = &json["results"]["cases"][0];
            assert_eq!((&case["same"], &json["limits"][0]["holds"]), (&0.into(), &false.into()));
            assert!(case["difference"].as_str().unwrap().contains("exec other"), "{case}");
            let release = program("release", "echo 'demos-sched version 1 (release)'");
            for missing in [release, "/nothing/demos-sched".into()] {
                let output = takt_of(&["bench", "demos", "--demos", &missing]);
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.code() == Some(3) && said.contains("missing-program"), "{said}");
            }
        });
    }

    #[test]
    fn misses_runs_the_same_jobs_everywhere() {
        on_cpus(|| {
            let Some(json) = bench(&["misses"]) else { return };
            let variants = |set: usize| json["results"]["sets"][set]["variants"].as_array().unwrap();
            let count = |set: usize, name: &str, key: &str| {
                let variant = variants(set).iter().find(|v| v["name"] == name).unwrap();
                variant["rounds"][0][key].as_u64().unwrap()
            };
            // 300 ms of periods of 10, 14, 25, 60 and 100 ms.
            for name in ["takt_edf", "takt_rm", "kernel"] {
                assert_eq!(count(0, name, "jobs"), 30 + 22 + 12 + 5 + 3, "{name}");
            }
            for set in [1, 2] {
                assert_eq!(count(set, "takt_edf", "jobs"), count(set, "sim_edf", "jobs"));
                assert_eq!(count(set, "sim_edf", "missed"), 0);
                assert!(count(set, "sim_rm", "missed") > 0, "RM cannot schedule this set");
            }
        });
    }

    #[test]
    fn classes_judges_every_miss() {
        on_cpus(|| {
            let Some(json) = bench(&["classes"]) else { return };
            for (set, jobs) in json["results"]["sets"].as_array().unwrap().iter().zip([123, 178]) {
                let variants = set["variants"].as_array().unwrap();
                let names: Vec<_> = variants.iter().map(|v| v["name"].as_str().unwrap()).collect();
                assert_eq!(names, ["takt_p_edf", "takt_p_edf_rank", "deadline", "fifo_rm", "other"]);
                assert_eq!(set["simulated"], serde_json::json!({"jobs": jobs, "missed": 0}));
                for variant in variants {
                    let round = &variant["rounds"][0];
                    let misses = round["misses"].as_array().unwrap();
                    // 600 ms of the periods of the set, whatever schedules it.
                    assert_eq!(
                        (round["jobs"].as_u64(), round["missed"].as_u64()),
                        (Some(jobs), Some(misses.len() as u64))
                    );
                    let unexplained = misses.iter().filter(|miss| miss["explained"] == false).count() as u64;
                    assert_eq!(variant["unexplained"].as_u64(), Some(unexplained));
                    for miss in misses {
                        let [tardiness, recorded] =
                            ["tardiness_ns", "recorded_ns"].map(|key| miss[key].as_i64().unwrap());
                        assert_eq!(miss["explained"], tardiness <= recorded, "{miss}");
                    }
                }
                // Beside two busy processes, the fair class gives the set a part of its CPU that is too small for it.
                assert!(variants[4]["unexplained"].as_u64() > Some(0), "{set}");
            }
        });
    }

    /// Runs it again where the processes had too little of their CPUs for a verdict, or the host of a virtual machine took some.
    #[test]
    fn overload_accrues_as_simulated_and_more_than_edf() {
        const ATTEMPTS: usize = 5;
        on_cpus(|| {
            for attempt in 1..=ATTEMPTS {
                let Some(json) = bench(&["overload"]) else { return };
                for set in json["results"]["sets"].as_array().unwrap() {
                    for policy in set["policies"].as_array().unwrap() {
                        let round = &policy["rounds"][0];
                        let jobs = |driver: &str, key: &str| round[driver][key].as_i64().unwrap();
                        // 2 s of the periods of the set, whatever schedules it.
                        assert_eq!(jobs("real", "released"), jobs("simulated", "released"), "{policy}");
                        for driver in ["real", "simulated"] {
                            // At 130 % something is shed, and what is late is aborted.
                            assert!(jobs(driver, "missed") > 0 && jobs(driver, "aborted") > 0, "{policy}");
                            assert!(
                                jobs(driver, "met") + jobs(driver, "missed") <= jobs(driver, "released"),
                                "{policy}"
                            );
                        }
                        assert!(round["used_ns"].as_i64().unwrap() > 0, "{policy}");
                    }
                    let simulated = |n: usize| set["policies"][n]["rounds"][0]["simulated"]["accrued"].as_i64();
                    assert!(simulated(0) > simulated(1), "{set}");
                }
                let limits = json["limits"].as_array().unwrap();
                assert_eq!(limits.len(), 2 * json["results"]["sets"].as_array().unwrap().len());
                if limits.iter().all(|limit| limit["holds"] == true) {
                    return;
                }
                let stolen = json["machine"]["stolen_ns"].as_i64().unwrap();
                let disturbed = stolen > 50_000_000 || limits.iter().any(|limit| limit["holds"].is_null());
                let why = format!("attempt {attempt}: {stolen} ns of steal: {limits:?}\n{}", json["results"]);
                assert!(disturbed && attempt < ATTEMPTS, "{why}");
                eprintln!("{why}");
            }
        });
    }

    #[test]
    fn deadline_sees_the_kernel_throttle() {
        on_cpus(|| {
            let Some(json) = bench(&["deadline"]) else { return };
            let cases = json["results"]["cases"].as_array().unwrap();
            let case =
                |pattern: &str| cases.iter().find(|c| c["pattern"] == pattern && c["noticed"] == "at once").unwrap();
            // 9.6 of 14.4 ms, and the rest at the deadline of 40 ms.
            let overrun = case("overrun by a half");
            assert_eq!(overrun["simulated_ends_ns"], serde_json::json!([[44_800_000]]));
            // However busy this machine is, the kernel lets no task run before the budget is replenished.
            let last = |case: &serde_json::Value| {
                case["rounds"][0]["measured_ends_ns"][0].as_array().unwrap().last().unwrap().as_i64()
            };
            assert!(last(overrun) >= Some(40_000_000), "{overrun}");
            // Each of two yields gives up the rest of a period of 40 ms, also in the job that comes at 100 ms.
            let yields = case("yields");
            assert_eq!(yields["runs"], 6);
            assert!(last(yields) >= Some(170_000_000), "{yields}");
            for case in cases {
                for key in ["ends_ns", "consumed_ns", "ahead_of_exact_ns"] {
                    assert!(case[key].as_i64().unwrap() >= 0, "{key} in {case}");
                }
            }
        });
    }
}

/// Benches that measure Takt's own code: many seconds without optimisation.
mod measured {
    use super::*;

    #[test]
    fn simulate_does_the_same_jobs_in_every_mode() {
        let json = bench(&["simulate"]).expect("a simulation needs nothing of the machine");
        let sets = json["results"]["sets"].as_array().unwrap();
        assert_eq!(sets.len(), 2);
        for set in sets {
            let completed = |mode: &str| set[mode]["rounds"][0]["completed"].as_u64().unwrap();
            assert!(completed("counters") > 1_000);
            assert_eq!([completed("responses"), completed("perfetto")], [completed("counters"); 2]);
            assert!(set["counters"]["jobs_per_cpu_second"].as_u64().unwrap() > 0);
            assert!(set["simso"].is_null());
        }
    }

    #[test]
    fn analyze_judges_known_sets() {
        let json = bench(&["analyze"]).expect("a test needs nothing of the machine");
        let tests = json["results"]["tests"].as_array().unwrap();
        let edf = tests.iter().find(|t| t["test"] == "edf").unwrap();
        assert_eq!((&edf["accepted"], &edf["sets"]), (&548.into(), &1000.into()));
        assert!(tests.iter().all(|t| t["sets_per_cpu_second"].as_u64().unwrap() > 0), "{json}");
    }

    /// CSV and pages have the same records, and a browser shows all pieces.
    #[test]
    fn view_writes_pages_and_shows_one() {
        let json = bench(&["view"]).expect("a page needs nothing of the machine");
        let results = &json["results"];
        let written = results["written"].as_array().unwrap();
        let bytes = |index: usize| written[index]["bytes"].as_u64().unwrap();
        let records = results["records"].as_u64().unwrap();
        assert!(records > 90_000 && bytes(0) == 0 && bytes(1) > 20 * records, "{results}");
        assert!((100_000..1_000_000).contains(&bytes(2)), "{results}");
        match results["shown"].as_object() {
            Some(shown) => {
                assert!(shown["pieces"].as_u64() > Some(19_000), "{results}");
                assert!(["first_ns", "frame_ns", "longest_frame_ns"].iter().all(|key| shown[*key].as_i64() > Some(0)));
                assert_eq!(json["limits"].as_array().map(Vec::len), Some(4));
            }
            None => skip(Capability::Browser, "no page was shown"),
        }
    }

    #[test]
    fn decode_writes_a_series_that_a_workload_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for (movie, frames) in [("h264", 24), ("lossless", 30)] {
            let series = path("series.csv");
            let output = takt(&["bench", "decode", "--movie", movie, "--quick", "--json", "--out", &series]);
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(3) {
                assert!(said.contains("fix: "), "{said}");
                skip(Capability::Ffmpeg, &said);
                return;
            }
            assert!(output.status.success(), "{}: {said}", output.status);
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(json["results"]["cpu_ns"].as_array().unwrap().len(), frames, "{json}");
            let text = "policy: edf\nduration: 1s\ntasks: [{name: a, period: 1s, execution: {file: series.csv}}]\n";
            std::fs::write(path("w.yaml"), text).unwrap();
            let check = takt(&["check", &path("w.yaml"), "--canonical"]);
            let text = String::from_utf8_lossy(&check.stdout).into_owned();
            let entries = text.lines().find(|line| line.contains("execution:")).unwrap();
            assert_eq!(entries.matches(',').count() + 1, frames, "{text}");
        }
    }

    #[test]
    fn decide_measures_every_policy_in_every_situation() {
        let json = bench(&["decide", "--jobs", "4,8,16,32", "--load", "0.8,2", "--at", "4"])
            .expect("a decision needs nothing of the machine");
        assert_eq!((&json["reference"], &json["chain"]), (&"g-edf".into(), &1.into()));
        let policies = json["results"]["policies"].as_array().unwrap();
        let names: Vec<_> = policies.iter().map(|p| p["policy"].as_str().unwrap()).collect();
        assert_eq!(names[0], "g-edf");
        for name in ["g-hvdf", "lbesa", "dasa-nd", "dasa", "gus", "gmua", "ng-gua", "g-gua"] {
            assert!(names.contains(&name), "{name} is not among {names:?}");
        }
        for policy in policies {
            assert!(policy["exponent"].as_f64().is_some_and(f64::is_finite), "{policy}");
            assert!(policy["stated_exponent"].as_u64().is_some_and(|e| e <= 3), "{policy}");
            for (key, count) in [("jobs", 4), ("loads", 2)] {
                let cells = policy[key].as_array().unwrap();
                assert_eq!(cells.len(), count, "{policy}");
                for cell in cells {
                    // If the machine stands still in the reference, the ratio is rounded to zero.
                    assert!(
                        cell["decision_ps"].as_i64().unwrap() > 0 && cell["ratio"].as_f64().is_some_and(f64::is_finite),
                        "{cell}"
                    );
                }
            }
        }
        let limits = json["limits"].as_array().unwrap();
        assert_eq!(limits.len(), policies.len());
        assert!(limits.iter().all(|l| l["holds"].is_null()), "a quick run judges nothing");
    }

    #[test]
    fn instructions_of_a_decision_are_the_same_every_time() {
        let args =
            ["decide", "--jobs", "2,4", "--load", "1", "--at", "6", "--policies", "g-edf,dasa-nd", "--chain", "3"];
        let [first, second] = [(); 2].map(|()| bench(&args).expect("a decision needs nothing of the machine"));
        if first["instructions"] != "counted" {
            skip(Capability::Ptrace, &first["instructions"].to_string());
            return;
        }
        let count = |json: &serde_json::Value, policy: usize| {
            json["results"]["policies"][policy]["loads"][0]["instructions"].as_u64().unwrap()
        };
        for policy in 0..2 {
            assert_eq!(count(&first, policy), count(&second, policy));
        }
        assert!(count(&first, 1) > count(&first, 0), "DASA does more than EDF");
    }
}

#[test]
fn decide_takes_policies_that_decide() {
    for (args, says) in [
        (["--policies", "windows"], "[unsuitable-policy]"),
        (["--policies", "edff"], "[unknown-policy]"),
        (["--load", "0"], "above zero"),
    ] {
        let output = takt(&[&["bench", "decide", "--quick"], &args[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_python_without_simso_has_a_way_out() {
    let output = takt(&["bench", "simulate", "--quick", "--simso", "/nonexistent/python"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("error[missing-program]: ") && said.contains("pip install simso==0.8.5"), "{said}");
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let output = takt(&["bench", "latency", "--quick", "--cpu", "1023"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("fix: "), "{said}");
}
