//! `takt trace view`: the page of a trace, opened in a browser without a network and driven by its own test.

use crate::common::{Room, workloads};
use crate::machine::{Capability, skip};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use takt_core::record::{Outcome, RecordKind};
use takt_core::time::{Span, Time};
use takt_testing::browse;
use takt_trace::Trace;
use takt_trace::gantt::{self, TextOptions};
use takt_trace::summary::summarize;
use takt_trace::timeline::Timeline;
use takt_trace::why::Causes;

/// The findings of the page's own test; `None` without a browser.
pub(crate) fn tested(page: &Path) -> Option<Value> {
    let arguments = ["--dump-dom", "--virtual-time-budget=60000", "--window-size=1200,900"];
    let Some(shown) = browse(page, "#selftest", &arguments) else {
        skip(Capability::Browser, "neither chromium nor google-chrome is installed");
        return None;
    };
    let (dom, said) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    // The browser's own pages write there, too.
    let of_page = |line: &&str| line.contains("CONSOLE") && line.contains("source: file:");
    let console: Vec<&str> = said.lines().filter(of_page).collect();
    assert!(console.is_empty() && !said.contains("net::ERR"), "{}: {console:?}", page.display());
    let (_, rest) = dom.split_once("<pre id=\"selftest\">").unwrap_or_else(|| panic!("{}: {said}", page.display()));
    let text = rest.split_once("</pre>").expect("the element ends").0;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["errors"], serde_json::json!([]), "{}", page.display());
    Some(result)
}

/// The text of the page about a job.
fn job_text(label: &str, job: &takt_trace::timeline::Job, end: Time) -> String {
    let mut text = format!("{label}#{}, released {}", job.number, job.release);
    let word = |outcome| match outcome {
        Outcome::Completed => "completed",
        Outcome::BudgetUsed => "budget used",
        Outcome::Overrun => "overrun",
        Outcome::Aborted => "aborted",
        Outcome::Exited => "exited",
        Outcome::Skipped => "skipped",
    };
    if let Some(deadline) = job.deadline {
        text += &format!(", deadline {deadline}");
    }
    match job.finish {
        None => text += ", not over at the end",
        Some((at, outcome)) => {
            text += &format!(", {} {at}, response {}", word(outcome), at - job.release);
            if let Some(deadline) = job.deadline {
                text += &format!(", slack {}", deadline - at);
            }
        }
    }
    if job.missed(end) {
        text += if job.deadline.is_some() { ", deadline missed" } else { ", missed" };
    }
    text
}

/// The value of a lane on demand at an instant, according to the timeline.
fn value_of(lane: &str, at: Time, trace: &Trace, line: &Timeline) -> i64 {
    let labels = trace.header.labels();
    let runs = |i: &takt_trace::timeline::Interval| i.from <= at && at < i.to;
    if lane == "ready jobs" {
        let open = |job: &&takt_trace::timeline::Job| job.release <= at && at < job.over().unwrap_or(line.end);
        let of_job = |i: &&takt_trace::timeline::Interval| {
            runs(i) && line.jobs[i.task.index()].iter().any(|job| job.number == i.job)
        };
        let waits = line.waits.iter().filter(|w| w.from <= at && at < w.to && !line.jobs[w.task.index()].is_empty());
        let open = line.jobs.iter().flatten().filter(open).count() as i64;
        return (open - line.intervals.iter().filter(of_job).count() as i64 - waits.count() as i64).max(0);
    }
    if let Some(domain) = lane.strip_prefix("frequency of ") {
        let own = |of: u16| trace.header.frequency_domains[usize::from(of)] == domain;
        return line.frequencies.iter().rfind(|sample| own(sample.of) && sample.at <= at).expect("a sample").value;
    }
    if let Some(zone) = lane.strip_prefix("temperature of ") {
        let own = |of: u16| trace.header.zone(of) == zone;
        return line.temperatures.iter().rfind(|sample| own(sample.of) && sample.at <= at).expect("a sample").value;
    }
    if let Some(cpus) = lane.strip_prefix("round of CPU ") {
        let round = |r: &takt_trace::Stamped| match r.record.kind {
            RecordKind::Round { place, measured, .. } if r.applied <= at => {
                (trace.header.places[usize::from(place.0)].to_string() == cpus).then_some(measured.ns())
            }
            _ => None,
        };
        return trace.records.iter().rev().find_map(round).expect("a round");
    }
    let task = lane.strip_prefix("budget of ").expect("a lane on demand");
    let task = labels.iter().position(|label| label == task).expect("a task");
    let grant = line.grants.iter().rfind(|grant| grant.task.index() == task && grant.at <= at).expect("a grant");
    let own = line.intervals.iter().filter(|i| i.task == grant.task && i.job == grant.job && !i.handler);
    let used: i64 = own.map(|i| (i.to.min(at).ns() - i.from.max(grant.at).ns()).max(0)).sum();
    (grant.amount.expect("an amount").ns() - used).max(0)
}

/// The instants of a sign in the lane of a task.
fn marks(view: &Value, task: usize, signs: &[&str]) -> Vec<i64> {
    let of = |sign: &&str| view["tasks"][task][*sign].as_array().cloned().unwrap_or_default();
    let mut all: Vec<i64> = signs.iter().flat_map(of).map(|at| at.as_f64().unwrap() as i64).collect();
    all.sort_unstable();
    all
}

/// The marks that the page draws are those of the trace, each in the column in which `trace show` has its sign.
fn marks_agree(name: &str, view: &Value, trace: &Trace, line: &Timeline) {
    const DUE: [&str; 2] = ["deadline", "deadline tick"];
    const RELEASE: [&str; 2] = ["release", "release tick"];
    const MISS: [&str; 2] = ["miss", "miss tick"];
    let to = view["to"].as_i64().unwrap();
    let shown = gantt::text(trace, &TextOptions { width: 160, to: Some(Time::from_ns(to)), ..TextOptions::default() });
    let mut lines = shown.lines();
    let Some((_, column)) = lines.next().and_then(|first| first.rsplit_once("a column is ")) else { return };
    let column = takt_workload::parse_duration(column).unwrap().ns();
    let ruler = lines.nth(1).expect("a ruler");
    let left = ruler.find('|').expect("a ruler");
    let rows: Vec<(String, Vec<char>)> = lines
        .map(|line| {
            let line: Vec<char> = line.chars().collect();
            let (label, cells) = line.split_at(left.min(line.len()));
            (label.iter().collect(), cells.to_vec())
        })
        .collect();
    let legend = view["legend"].as_array().unwrap();
    let mut drawn = [false; 4];
    // Tasks stand by partition, in the order of their first members.
    let mut order: Vec<usize> = (0..trace.header.tasks.len()).collect();
    let partition = |task: usize| trace.header.tasks[task].partition.as_ref();
    order.sort_by_key(|task| (0..=*task).find(|first| partition(*first) == partition(*task)));
    let indent = if trace.header.tasks.iter().any(|task| task.partition.is_some()) { "  " } else { "" };
    let mut next = 0;
    for task in order {
        let own = &line.jobs[task];
        let instants = |of: &dyn Fn(&takt_trace::timeline::Job) -> Option<Time>| {
            let mut all: Vec<i64> =
                own.iter().filter_map(of).map(Time::ns).filter(|at| (0..=to).contains(at)).collect();
            all.sort_unstable();
            all
        };
        let dated = view["dated"][task].as_bool().unwrap();
        let cut = |job: &takt_trace::timeline::Job| {
            let ended = |outcome| matches!(outcome, Outcome::Overrun | Outcome::Aborted | Outcome::Skipped);
            job.finish.filter(|(_, outcome)| job.cut_off || ended(*outcome)).map(|(at, _)| at)
        };
        let expected = [
            (&RELEASE[..], if dated { instants(&|job| Some(job.release)) } else { vec![] }),
            (&DUE[..], if dated { instants(&|job| job.deadline.filter(|_| !job.missed(line.end))) } else { vec![] }),
            (&MISS[..], instants(&|job| job.deadline.filter(|_| job.missed(line.end)))),
            (&["cut"][..], instants(&cut)),
        ];
        for ((signs, instants), drawn) in expected.iter().zip(&mut drawn) {
            assert_eq!(&marks(view, task, signs), instants, "{name}: {signs:?} of task {task} up to {to}");
            *drawn |= !instants.is_empty();
        }
        let completions = marks(view, task, &["completion"]);
        let is_dense = !marks(view, task, &["release tick"]).is_empty();
        if dated && !is_dense {
            let completed = |outcome| outcome == Outcome::Completed;
            let ends = instants(&|job| job.finish.filter(|(_, outcome)| completed(*outcome)).map(|(at, _)| at));
            assert_eq!(completions, ends, "{name}: completions of task {task}");
        }
        assert_eq!(legend.contains(&"completion".into()), legend_of(view, "completion"), "{name}");
        // The row below that of the task.
        let letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".chars().nth(task).unwrap_or('*');
        let begins = format!("{indent}{letter} ");
        let found = rows.iter().skip(next).position(|(label, _)| label.starts_with(&begins));
        next += found.unwrap_or_else(|| panic!("{name}: {begins:?} in {shown}")) + 1;
        let Some((_, cells)) = rows.get(next).filter(|(label, _)| label.trim().is_empty() && !label.is_empty()) else {
            assert!(marks(view, task, &[&MISS[..], &["cut"]].concat()).is_empty(), "{name}: {shown}");
            continue;
        };
        // A job that is aborted before its deadline has its deadline in red, and no sign of a miss there in the text.
        let aborted: Vec<i64> = own
            .iter()
            .filter(|job| !matches!(job.finish, Some((_, Outcome::Skipped))))
            .filter(|job| cut(job).zip(job.deadline).is_some_and(|(at, deadline)| at < deadline))
            .filter_map(|job| job.deadline)
            .map(Time::ns)
            .collect();
        let skipped: Vec<i64> = own
            .iter()
            .filter_map(|job| job.finish.filter(|(_, outcome)| *outcome == Outcome::Skipped))
            .map(|(at, _)| at.ns())
            .collect();
        let late = |job: &&takt_trace::timeline::Job| {
            job.missed(line.end) && !aborted.contains(&job.deadline.map_or(-1, Time::ns))
        };
        let missed: Vec<i64> = own.iter().filter(late).filter_map(|job| job.deadline).map(Time::ns).collect();
        let at = |index: usize| {
            let within = move |at: &i64| *at / column == index as i64;
            let any = |signs: &[&str]| marks(view, task, signs).iter().any(within);
            let cut = marks(view, task, &["cut"]).iter().filter(|at| !skipped.contains(at)).any(within);
            let missed = marks(view, task, &MISS).iter().filter(|at| missed.contains(at)).any(within);
            let due = any(&DUE) || marks(view, task, &MISS).iter().filter(|at| aborted.contains(at)).any(within);
            (cut || missed, any(&RELEASE), due)
        };
        for index in 0..=(to / column) as usize {
            let sign = cells.get(index).copied().unwrap_or(' ');
            let (miss, release, due) = at(index);
            let agrees = match sign {
                '!' => miss,
                '↑' | '╵' => !miss && (release || !dated) && !due,
                '↓' | '╷' => !miss && !release && due,
                '↕' | '│' => !miss && release && due,
                _ => !miss && !release && !due,
            };
            // A skipped job without a deadline has a cross in the page, and its end in the text.
            let ends = sign == '!' && skipped.iter().any(|at| *at / column == index as i64);
            assert!(agrees || ends, "{name}: `{sign}` of task {task} in column {index}: {:?}\n{shown}", at(index));
        }
    }
    for (sign, drawn) in ["release", "deadline", "deadline missed", "cut off, aborted or skipped"].iter().zip(drawn) {
        assert_eq!(legend.contains(&(*sign).into()), drawn, "{name}: {sign} in {legend:?}");
    }
    let switches = line.switches.iter().filter(|switch| switch.at.ns() <= to);
    let mut switches: Vec<_> = switches.map(|s| (s.at.ns(), s.to_string())).collect();
    let all = view["tasks"][0]["switch"].as_array().cloned().unwrap_or_default();
    let mut drawn: Vec<_> =
        all.iter().map(|s| (s[0].as_f64().unwrap() as i64, s[1].as_str().unwrap().to_owned())).collect();
    switches.sort();
    drawn.sort();
    assert_eq!(drawn, switches, "{name}");
    for (at, words) in switches.iter().take(20) {
        assert!(shown.contains(&format!("at {} {words}", Time::from_ns(*at))), "{name}: {words} in {shown}");
    }
}

fn legend_of(view: &Value, sign: &str) -> bool {
    view["tasks"].as_array().unwrap().iter().any(|task| !task[sign].is_null())
}

/// Everything that the page found agrees with what the library finds in the trace.
fn agrees(page: &Path, trace: &Trace) {
    let Some(result) = tested(page) else { return };
    let (name, line, summary) = (page.display(), Timeline::of(trace), summarize(trace));
    let labels = trace.header.labels();
    for (check, holds) in result["checks"].as_object().unwrap() {
        assert_eq!(holds, true, "{name}: {check}");
    }
    let overdue: Vec<_> = line.overdue.iter().map(|o| serde_json::json!([o.task.0, o.from.ns(), o.to.ns()])).collect();
    assert_eq!(result["overdue"], serde_json::json!(overdue), "{name}");
    for lane in result["lanes"].as_array().unwrap() {
        let label = lane[0].as_str().unwrap();
        for sample in lane[1].as_array().unwrap() {
            let (at, value) = (Time::from_ns(sample[0].as_f64().unwrap() as i64), sample[1].as_f64().unwrap() as i64);
            assert_eq!(value, value_of(label, at, trace, &line), "{name}: {label} at {at}");
        }
    }
    assert_eq!(result["pieces"], line.intervals.len(), "{name}");
    assert_eq!(result["end"].as_f64(), Some(line.end.ns() as f64), "{name}");
    for (index, (task, found)) in summary.tasks.iter().zip(result["tasks"].as_array().unwrap()).enumerate() {
        let c = &task.counts;
        let mut expected =
            vec![("dispatches", c.dispatches), ("preemptions", c.preemptions), ("migrations", c.migrations)];
        // In a window table a job may take several activations, and the page has activations.
        if trace.header.tasks[index].completion.is_none() {
            expected.extend([("released", c.released), ("completed", c.completed), ("met", c.met)]);
            expected.extend([("missed", c.missed), ("aborted", c.aborted)]);
        }
        for (key, count) in expected {
            assert_eq!(found[key], count, "{name}: {} {key}", task.name);
        }
        let own = line.intervals.iter().filter(|i| i.task.index() == index);
        let ran = own.fold(Span::ZERO, |sum, i| sum + (i.to - i.from));
        assert_eq!(found["ran"].as_f64(), Some(ran.ns() as f64), "{name}: {}", task.name);
    }
    for view in result["views"].as_array().unwrap() {
        marks_agree(&name.to_string(), view, trace, &line);
    }
    let differ = result["differences"].as_array().is_some_and(|all| !all.is_empty());
    let legend = result["views"][0]["legend"].as_array().unwrap();
    assert_eq!(legend.contains(&"difference".into()), differ, "{name}");
    // The list of jobs begins with the first releases of all tasks.
    let mut first: Vec<_> = line.jobs.iter().flatten().collect();
    first.sort_by_key(|job| (job.release, job.task, job.number));
    let first = first.iter().take(60).map(|job| format!("{}#{}", labels[job.task.index()], job.number));
    assert_eq!(result["listed"], serde_json::json!(first.collect::<Vec<_>>()), "{name}");
    let jobs = line.jobs.iter().flatten().take(500);
    let jobs: Vec<String> = jobs.map(|job| job_text(&labels[job.task.index()], job, line.end)).collect();
    assert_eq!(result["jobs"], serde_json::json!(jobs), "{name}");
    let mut missed: Vec<_> = line.jobs.iter().flatten().filter(|job| job.missed(line.end)).collect();
    missed.sort_by_key(|job| (job.deadline.or(job.over()).unwrap_or(line.end), job.task, job.number));
    let visited = result["misses"].as_array().unwrap();
    assert_eq!(visited.len(), missed.len().min(40), "{name}");
    let causes = Causes::of(trace);
    for (job, found) in missed.iter().zip(visited) {
        let label = &labels[job.task.index()];
        assert_eq!(found["job"], job_text(label, job, line.end), "{name}");
        assert_eq!(found["shown"], true, "{name}: {label}");
        let why = causes.why(job.task, job.number).unwrap();
        let parts = why.parts.iter().map(|p| [p.cause.describe(trace, &labels), p.time.to_string()]);
        assert_eq!(found["why"], serde_json::json!(parts.collect::<Vec<_>>()), "{name}: {label}");
    }
    let last = line.jobs.iter().filter_map(|jobs| jobs.last()).take(20);
    let last: Vec<_> = last.map(|job| job_text(&labels[job.task.index()], job, line.end)).collect();
    assert_eq!(result["found"], serde_json::json!(last), "{name}");
    for hover in result["hovers"].as_array().unwrap() {
        let hover = hover.as_str().unwrap();
        let (first, second) = hover.split_once('\n').unwrap_or_else(|| panic!("{name}: {hover}"));
        assert!(
            line.jobs.iter().flatten().any(|job| job_text(&labels[job.task.index()], job, line.end) == first),
            "{hover}"
        );
        let is_piece = |i: &takt_trace::timeline::Interval| {
            second.contains(&format!("{} to {} ({})", i.from, i.to, i.to - i.from))
                && first.starts_with(&format!("{}#{}", labels[i.task.index()], i.job))
        };
        assert!(line.intervals.iter().any(is_piece), "{name}: {hover}");
    }
}

fn files() -> Vec<PathBuf> {
    let list = |dir: PathBuf| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let all = list(workloads()).chain(list(workloads().join("features"))).chain(list(workloads().join("chronos")));
    let mut all: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "ts")).collect();
    all.sort();
    assert!(all.len() > 70);
    all
}

/// Opens the pages of these workloads, and returns how many there are.
fn open(files: &[PathBuf]) -> usize {
    let room = Room::new();
    let mut opened = 0;
    for file in files {
        let file = file.to_str().unwrap();
        let done = room.takt(&["sim", file, "--duration", "200ms", "--trace", "t.jsonl"]);
        // Some workloads are for runs only.
        if done.code() != 0 {
            continue;
        }
        room.takt(&["trace", "view", "t.jsonl", "-o", "t.html"]).expect(0);
        agrees(&room.path("t.html"), &room.trace("t.jsonl"));
        opened += 1;
    }
    opened
}

/// The page of each workload of the repository says what the library says of its trace.
#[test]
fn the_pages_of_all_workloads_agree_with_their_traces() {
    let (files, name) = (files(), std::thread::current().name().unwrap_or_default().to_owned());
    let (first, second) = files.split_at(files.len() / 2);
    let opened = std::thread::scope(|scope| {
        // A skipped test is named by its thread.
        let beside = std::thread::Builder::new().name(name).spawn_scoped(scope, || open(first)).unwrap();
        let own = open(second);
        own + beside.join().unwrap()
    });
    assert!(opened > 40, "{opened}");
}

const TWO: &str = "policy: edf\ntasks:\n  - {name: '</script><b>x', period: 10ms, runtime: 6ms}\n  - {name: \"a\\\"&\", period: 15ms, runtime: 7ms}\n";

/// A name ends no element, a cut trace is shown as far as it goes, and an overlay has the verdict of the comparison.
#[test]
fn names_cut_traces_and_overlays() {
    let room = Room::with(TWO);
    room.takt(&["sim", "w.yaml", "--duration", "100ms", "--trace", "t.jsonl"]).expect(0);
    // A simulation and `view` write the same page.
    room.takt(&["sim", "w.yaml", "--duration", "100ms", "--trace", "direct.html"]).expect(0);
    room.takt(&["trace", "view", "t.jsonl", "-o", "t.html"]).expect(0);
    room.takt(&["trace", "view", "t.jsonl", "w.yaml", "-o", "with-file.html"]).expect(0);
    assert_eq!(room.text("direct.html"), room.text("with-file.html"));
    let page = room.text("direct.html");
    let escaped = "period: 10ms, runtime: 6ms}\n  - {name: &quot;a\\&quot;&amp;&quot;, period: 15ms";
    assert!(page.contains("<summary>Workload</summary>") && page.contains(escaped), "{page}");
    assert!(!room.text("t.html").contains("<summary>Workload"));
    agrees(&room.path("direct.html"), &room.trace("t.jsonl"));
    assert!(page.contains("default-src 'none'") && !page.contains("<b>x"), "{page}");
    for word in ["http://", "https://", "src=", "@import", "url("] {
        let outside = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "").replace("url(#", "");
        assert!(!outside.contains(word), "{word}");
    }
    agrees(&room.path("t.html"), &room.trace("t.jsonl"));

    let text = room.text("t.jsonl");
    fs::write(room.path("cut.jsonl"), &text[..text.len() / 2]).unwrap();
    room.takt(&["trace", "view", "cut.jsonl", "-o", "cut.html"]).expect(0);
    agrees(&room.path("cut.html"), &room.trace("cut.jsonl"));

    room.takt(&["sim", "w.yaml", "--policy", "rm", "--duration", "100ms", "--trace", "rm.jsonl"]).expect(0);
    room.takt(&["trace", "view", "t.jsonl", "--with", "rm.jsonl", "-o", "both.html"]).expect(0);
    agrees(&room.path("both.html"), &room.trace("t.jsonl"));
    if let Some(result) = tested(&room.path("both.html")) {
        let said = room.takt(&["trace", "diff", "t.jsonl", "rm.jsonl"]).expect(1).stdout;
        let verdict = result["verdict"].as_str().unwrap();
        // The command shortens the largest difference; the counts and the order are the same.
        let counts = said.split(", largest").next().unwrap();
        assert!(verdict.starts_with(counts), "{verdict}\n{said}");
        assert!(!result["differences"].as_array().unwrap().is_empty());
    }
    let other = Room::with("policy: edf\ntasks: [{name: z, period: 10ms, runtime: 1ms}]\n");
    other.takt(&["sim", "w.yaml", "--trace", "z.jsonl"]).expect(0);
    let z = other.path("z.jsonl");
    let refused = room.takt(&["trace", "view", "t.jsonl", "--with", z.to_str().unwrap(), "-o", "z.html"]).expect(2);
    assert!(refused.stderr.contains("[other-record]"), "{}", refused.stderr);
    // The file of another workload is refused.
    let (w, t) = (other.path("w.yaml"), room.path("t.jsonl"));
    let page = room.path("w.html");
    let paths = [&t, &w, &page].map(|path| path.to_str().unwrap());
    room.takt(&["trace", "view", paths[0], paths[1], "-o", paths[2]]).expect(2);
    assert!(!page.exists());
    room.takt(&["trace", "view", "t.jsonl", "-o", "t.txt"]).expect(2);
    room.takt(&["trace", "view", "t.jsonl", "-o", "t.jsonl"]).expect(2);
}

/// The page divides responses by the rules of `trace why`, also where a resource raises a priority.
#[test]
fn blocking_by_raised_priorities_is_in_pages() {
    const TASKS: &str = "tasks:
  - {name: low, priority: 2, period: 40ms, steps: [run 1ms, lock bus, run 4ms, unlock bus, run 1ms]}
  - {name: middle, priority: 3, period: 40ms, offset: 3ms, deadline: 5ms, steps: [run 5ms]}
  - {name: high, priority: 4, period: 40ms, offset: 2ms, deadline: 5ms, steps: [run 1ms, lock bus, run 2ms, unlock bus, run 1ms]}
  - {name: lowest, priority: 1, period: 40ms, offset: 3ms, deadline: 5ms, steps: [run 1ms]}
";
    for locking in ["ceiling", "inheritance"] {
        let room = Room::with(&format!("policy: fp\nlocking: {locking}\nresources: [bus]\n{TASKS}"));
        room.takt(&["sim", "w.yaml", "--duration", "80ms", "--trace", "t.jsonl"]).expect(0);
        room.takt(&["trace", "view", "t.jsonl", "-o", "t.html"]).expect(0);
        let trace = room.trace("t.jsonl");
        let causes = Causes::of(&trace);
        let missed = causes.timeline().jobs[1][0];
        let why = causes.why(missed.task, missed.number).unwrap();
        assert!(why.missed && why.parts.iter().any(|part| part.cause.name() == "blocking"), "{locking}: {why:?}");
        agrees(&room.path("t.html"), &trace);
    }
}

/// A page takes at most 6 bytes for a piece, and 150 KB besides.
#[test]
fn pages_are_small() {
    let periods = [5, 7, 8, 10, 11, 12, 13, 16, 17, 19, 20, 23, 25, 28, 32, 40];
    let task = |(index, period): (usize, &u32)| {
        format!("  - {{name: t{index:02}, period: {period}ms, runtime: {}us}}\n", period * 240)
    };
    let tasks: String = periods.iter().enumerate().map(task).collect();
    let room = Room::with(&format!("policy: g-edf\ncpus: 0-3\ntasks:\n{tasks}"));
    room.takt(&["sim", "w.yaml", "--duration", "20s", "--trace", "t.jsonl"]).expect(0);
    room.takt(&["trace", "view", "t.jsonl", "-o", "t.html"]).expect(0);
    let pieces = Timeline::of(&room.trace("t.jsonl")).intervals.len();
    let bytes = fs::metadata(room.path("t.html")).unwrap().len() as usize;
    assert!(pieces > 10_000 && bytes <= 6 * pieces + 150_000, "{bytes} bytes for {pieces} pieces");
    room.takt(&["sim", "w.yaml", "--duration", "10ms", "--trace", "s.html"]).expect(0);
    let small = fs::metadata(room.path("s.html")).unwrap().len();
    assert!(small <= 150_000, "{small} bytes for a short trace");
    agrees(&room.path("t.html"), &room.trace("t.jsonl"));
}
