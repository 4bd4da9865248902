//! A run that is watched: its metrics, its log, and `takt top`. The counts are those of its summary.

use super::exposition::Exposition;
use super::jobs::counts;
use crate::common::{Room, Running, TAKT, attempts, ensure, pause, until};
use crate::machine::{always, on_cpus};
use crate::tmux::Tmux;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use takt_trace::summary::summarize;

/// Two tasks whose programs end long before the run does, and one that keeps it alive. `la"te` misses all its deadlines.
const ENDING: &str = "policy: edf\ncpus: 0\ntasks:\n\
    - {name: steady, period: 20ms, runtime: 4ms, init: yes, cmd: exec takt burn --runtime 3ms --jobs 40}\n\
    - {name: 'la\"te', period: 50ms, deadline: 8ms, runtime: 8ms, init: yes, cmd: exec takt burn --runtime 14ms --jobs 12}\n\
    - {name: keep, period: 100ms, runtime: 2ms, init: yes, cmd: exec takt burn --runtime 1ms}\n";

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Connects to the address that a run serves at.
fn connect(address: &str) -> io::Result<Box<dyn Stream>> {
    let limit = Some(Duration::from_secs(20));
    Ok(match address.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(limit)?;
            Box::new(stream)
        }
        None => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(limit)?;
            Box::new(stream)
        }
    })
}

/// Asks for something, and returns the head and the body of the answer.
fn ask(address: &str, request: &[u8]) -> io::Result<(String, String)> {
    let mut stream = connect(address)?;
    // One that is refused early need not take it all.
    let _ = stream.write_all(request);
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok((head.into(), body.into()))
}

fn scrape(address: &str) -> Result<Exposition, String> {
    let (head, body) = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").map_err(|e| e.to_string())?;
    always(head.starts_with("HTTP/1.1 200 OK\r\n"), || head.clone());
    always(head.contains("Content-Type: text/plain; version=0.0.4"), || head.clone());
    always(head.contains(&format!("Content-Length: {}\r\n", body.len())), || head.clone());
    let read = Exposition::read(&body);
    always(read.is_ok(), || format!("{read:?}"));
    read
}

/// Clients that send half a request, garbage, too much, or do not read. None of them delays another client or the run.
fn misbehave(address: &str) -> Vec<Box<dyn Stream>> {
    let mut held = Vec::new();
    for half in [&b"GET /met"[..], b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"].iter().cycle().take(30) {
        if let Ok(mut stream) = connect(address) {
            let _ = stream.write_all(half);
            held.push(stream);
        }
    }
    for (request, status) in [
        (&b"\0\xff\x01 garbage\r\n\r\n"[..], "400"),
        (b"GET / HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (&[b"GET /metrics HTTP/1.1\r\nX: ", &[b'a'; 1 << 20][..]].concat(), "431"),
    ] {
        match ask(address, request) {
            Ok((head, _)) => always(head.starts_with(&format!("HTTP/1.1 {status} ")), || head.clone()),
            // The rest of what was sent can end the connection before its answer is read.
            Err(e) => always(e.kind() == io::ErrorKind::ConnectionReset, || format!("{status}: {e}")),
        }
    }
    for _ in 0..20 {
        if let Ok(mut stream) = connect(address) {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
            held.push(stream);
        }
    }
    held
}

/// The address at which the metrics of a run are served.
fn address(running: &Running, wanted: &str) -> String {
    if wanted.starts_with("unix:") {
        return wanted.into();
    }
    let mut found = None;
    until("the run serves its metrics", || {
        let said = running.stderr();
        found = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).map(str::to_owned);
        found.is_some()
    });
    found.unwrap_or_default()
}

#[test]
fn metrics_of_a_run_are_those_of_its_summary() {
    on_cpus(|| {
        let room = Room::with(ENDING);
        let socket = room.path("m.sock");
        let unix = format!("unix:{}", socket.display());
        for wanted in ["127.0.0.1:0", unix.as_str()] {
            attempts(3, || {
                let running = room.start(&["run", "w.yaml", "--json", "--duration", "4s", "--metrics", wanted]);
                let address = address(&running, wanted);
                until("it answers", || connect(&address).is_ok());
                let held = misbehave(&address);
                let (mut last, mut before) = (None, 0.0);
                while let Ok(read) = scrape(&address) {
                    let met = read.value("takt_jobs_total", &[("task", "steady"), ("outcome", "met")]);
                    let met = met.ok_or("no count of `steady`")?;
                    always(met >= before, || format!("{met} after {before}"));
                    before = met;
                    last = Some(read);
                    pause(30);
                }
                drop(held);
                let run = running.wait().json();
                always(!socket.exists(), || "the socket is left".into());
                let last = last.ok_or("no scrape")?;
                let elapsed = last.value("takt_elapsed_seconds", &[]).ok_or("no time")?;
                ensure(elapsed > 3.0, || format!("the last scrape came at {elapsed} s"))?;
                for index in [0, 1] {
                    let task = &run["tasks"][index];
                    let name = task["name"].as_str().unwrap_or_default();
                    let [met, missed, completed] = counts(task, ["met", "missed", "completed"]);
                    let jobs = |outcome| last.value("takt_jobs_total", &[("task", name), ("outcome", outcome)]);
                    always(jobs("met") == Some(met as f64), || format!("{:?} for {met}", jobs("met")));
                    always(jobs("missed") == Some(missed as f64), || format!("{:?} for {missed}", jobs("missed")));
                    let responses = last.value("takt_response_seconds_count", &[("task", name)]);
                    always(responses == Some(completed as f64), || format!("{responses:?} for {completed}"));
                    always(last.value("takt_task_gone", &[("task", name)]) == Some(1.0), || name.into());
                }
                always(last.value("takt_records_lost_total", &[]) == Some(0.0), || "records were lost".into());
                let load = last.value("takt_cpu_load_ratio", &[("cpu", "0")]).ok_or("no load")?;
                ensure((0.0..0.1).contains(&load), || format!("a load of {load}"))?;
                // The run was not disturbed by all of that.
                let all = [counts(&run["tasks"][0], ["met", "missed"]), counts(&run["tasks"][1], ["met", "missed"])];
                ensure(all == [[40, 0], [0, 12]], || format!("{all:?}: {run}"))
            });
        }
    });
}

/// The objects among the lines of standard error.
fn log(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// The lines of a kind, with the suppressed ones.
fn number(lines: &[Value], event: &str) -> u64 {
    let suppressed = of(lines, "suppressed").into_iter().filter(|line| line["kind"] == event);
    of(lines, event).len() as u64 + suppressed.filter_map(|line| line["count"].as_u64()).sum::<u64>()
}

/// A hundred misses a second are more than there are lines for.
#[test]
fn the_log_has_a_line_for_each_event_or_counts_it() {
    let text = format!(
        "{ENDING}- {{name: fast, period: 10ms, deadline: 1ms, runtime: 1ms, init: yes, \
         cmd: exec takt burn --runtime 2ms}}\n"
    );
    on_cpus(|| {
        let room = Room::with(&text);
        attempts(3, || {
            let all = ["run", "w.yaml", "--json", "--duration", "3s", "--log", "json", "--trace", "t.jsonl"];
            let done = room.takt(&all);
            let (run, lines, trace) = (done.json(), log(&done.stderr), room.trace("t.jsonl"));
            let summary = summarize(&trace);
            let missed: u64 = (0..4).map(|index| counts(&run["tasks"][index], ["missed"])[0]).sum();
            always(number(&lines, "miss") == missed, || format!("{} of {missed}", number(&lines, "miss")));
            always(missed == summary.total.missed, || format!("{missed}, and {} traced", summary.total.missed));
            for second in 0..3 {
                let within = |line: &&&Value| line["at_ns"].as_i64().is_some_and(|at| at / 1_000_000_000 == second);
                let lines = of(&lines, "miss").iter().filter(within).count();
                always(lines <= 50, || format!("{lines} lines in second {second}"));
            }
            let exits: Vec<(&str, &Value)> = of(&lines, "exit")
                .into_iter()
                .map(|line| (line["task"].as_str().unwrap_or(""), &line["status"]))
                .collect();
            always(exits.len() == 2 && exits.iter().all(|(_, status)| **status == 0), || format!("{exits:?}"));
            always(of(&lines, "overload_begin").len() == 1, || format!("{:?}", of(&lines, "overload_begin")));
            let first = of(&lines, "miss")[0];
            let [unix, at] = ["unix_ns", "at_ns"].map(|key| first[key].as_i64().unwrap_or_default());
            let start = trace.header.start_unix_ns.unwrap_or_default() as i64;
            always(first["takt_log"] == 1 && first["cause"] == "late" && unix - at == start, || first.to_string());
            ensure(missed > 200 && of(&lines, "suppressed").len() >= 2, || format!("{missed} misses"))
        });
    });
}

/// An overload ends a second after its last late job, and activations that are cut off are overruns.
#[test]
fn the_log_has_overruns_and_the_ends_of_overloads() {
    let table = "windows: [{length: 100ms, cpu: 0, sc_partition: A}]\npartitions: [{name: A, processes: [{name: a, budget: 10ms, \
                 init: yes, cmd: exec takt burn --runtime 15ms --jobs 4}]}]";
    on_cpus(|| {
        let room = Room::with(table);
        attempts(3, || {
            let done = room.takt(&["run", "w.yaml", "--json", "--duration", "3s", "--log", "json"]);
            let (run, lines) = (done.json(), log(&done.stderr));
            let [missed, cut_off] = counts(&run["tasks"][0], ["missed", "cut_off"]);
            always(number(&lines, "overrun") == cut_off, || format!("{cut_off}: {lines:?}"));
            always(number(&lines, "miss") == missed, || format!("{missed}: {lines:?}"));
            ensure(missed >= 3, || format!("{missed} missed"))
        });
        let room = Room::with(ENDING);
        attempts(3, || {
            let done = room.takt(&["run", "w.yaml", "--json", "--duration", "3s", "--log", "json"]);
            let lines = log(&done.stderr);
            let ends = of(&lines, "overload_end");
            ensure(ends.len() == 1 && ends[0]["misses"] == 12, || format!("{ends:?}: {lines:?}"))
        });
    });
}

/// The number in a column of a task's row.
fn figure(screen: &str, task: &str, column: usize) -> Option<u64> {
    let line = screen.lines().find(|line| line.trim_start().starts_with(task))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

#[test]
fn a_run_is_watched_in_a_terminal_until_it_ends() {
    on_cpus(|| {
        let room = Room::with(ENDING);
        let running = room.start(&["run", "w.yaml", "--json", "--duration", "6s"]);
        let pid = running.pid().to_string();
        let begin = Instant::now();
        until("it can be watched", || {
            let once = room.takt(&["top", "--run", &pid, "--json"]);
            always(begin.elapsed() < Duration::from_secs(60), || once.stderr.clone());
            once.status.success()
        });
        let Some(tmux) = Tmux::start(100, 24, &format!("{TAKT} top --run {pid}; echo status $?")) else { return };
        let screen = tmux.until("all of `steady`", |screen| figure(screen, "steady", 4) == Some(40));
        always(screen.contains("live") && screen.contains("scheduling latency: p50"), || screen.clone());
        tmux.keys(&["m", "Enter"]);
        tmux.until("its history", |screen| screen.contains("one character for 250ms") && screen.contains("missed*"));
        tmux.keys(&["Space"]);
        tmux.until("a picture that stands still", |screen| screen.contains("PAUSED"));
        // It stands still in a terminal of another size, too.
        tmux.resize(60, 15);
        let fits = |screen: &str| screen.lines().nth(14).is_some_and(|help| help.trim_start().starts_with("q quit"));
        tmux.until("a smaller picture", |screen| fits(screen) && screen.contains("PAUSED"));
        let screen = tmux.until("the end", |screen| screen.contains("status "));
        always(screen.contains("the run has ended") && screen.contains("status 0"), || screen.clone());
        tmux.is_restored();
        let run = running.wait().json();
        let late = counts(&run["tasks"][1], ["missed"]);
        always(late == [12], || run.to_string());
    });
}

/// A run that dies takes the watcher's terminal along .
#[test]
fn a_run_that_dies_restores_the_terminal_of_its_watcher() {
    on_cpus(|| {
        let room = Room::with(ENDING);
        let running = room.start(&["run", "w.yaml", "--json", "--duration", "60s"]);
        let pid = running.pid().to_string();
        until("it can be watched", || room.takt(&["top", "--run", &pid, "--once"]).status.success());
        let Some(tmux) = Tmux::start(100, 24, &format!("{TAKT} top --run {pid}; echo status $?")) else { return };
        tmux.until("its tasks", |screen| screen.contains("steady"));
        running.kill_and_wait();
        tmux.until("the end", |screen| screen.contains("status "));
        tmux.is_restored();
    });
}
