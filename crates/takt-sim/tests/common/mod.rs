//! A system and its inputs as a few lines of text, and what happened as lines of text. All times are milliseconds.
//!
//! ```text
//! cpus 2                                        machine (default 1)
//! policy g-edf                                  default `windows`
//! be_start slice
//! rules demos 2                                 DEmOS's rules, with this seed
//! process a 40 jitter 10 runtime 12             a process of a window table: budget first
//! process b 40 completion signal                signal, none; undeclared without it
//! task x period 10 runtime 3 priority 1         a periodic task; its deadline is its period
//! partition P a b                               fifo, or: partition E x policy edf
//! window 100                                    followed by its slices
//! slice 0-1 sc P be Q
//! resources 1
//! at 5 complete a                               complete (a 0: names the job), block, wake, abort, request a 0, return a 0
//! at 5 exit a                                   status 0; `fail`: another one; followed by `restart`: it is replaced
//! stall 50 370                                  the driver does nothing from 50 until 370
//! until 200
//! ```

use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::record::{JobId, Outcome, Record, RecordKind};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

/// In an input: the job that the program is at then, or was at last.
const THE_ONE_IT_IS_AT: JobId = JobId::MAX;

/// The workload that a text describes.
pub(crate) struct Scene {
    pub(crate) system: System,
    names: Vec<String>,
    inputs: Vec<(Time, Input)>,
    stall: Option<(Time, Time)>,
    until: Time,
}

/// How it went.
pub(crate) struct Outcomes {
    pub(crate) lines: String,
    pub(crate) records: Vec<Record>,
    pub(crate) totals: Counts,
    /// By task, in the order of the text.
    pub(crate) counts: Vec<Counts>,
    pub(crate) windows_lost: u64,
}

/// Nanoseconds of a decimal number of milliseconds.
fn ns(text: &str) -> i64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    whole.parse::<i64>().unwrap() * 1_000_000 + format!("{fraction:0<6}").parse::<i64>().unwrap()
}

fn ms(at: Time) -> String {
    let text = format!("{}.{:06}", at.ns() / 1_000_000, at.ns() % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn cpus(list: &str) -> CpuSet {
    let range = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        a.parse::<usize>().unwrap()..=b.parse().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

/// The word after `key`.
fn after<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().position(|w| *w == key).map(|i| words[i + 1])
}

pub(crate) fn scene(text: &str) -> Scene {
    let mut s = Scene {
        system: System::new(CpuSet::first(1), PolicySpec::from_name("windows").unwrap()),
        names: vec![],
        inputs: vec![],
        stall: None,
        until: Time::ZERO,
    };
    let mut partitions: Vec<String> = vec![];
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(&key) = words.first() else { continue };
        let task = |names: &[String], name: &str| TaskId(names.iter().position(|n| n == name).expect(name) as u32);
        let span = |key: &str| after(&words, key).map(|t| Span::from_ns(ns(t)));
        let time = |i: usize| Time::from_ns(ns(words[i]));
        match key {
            "cpus" => s.system.cpus = CpuSet::first(words[1].parse().unwrap()),
            "policy" => s.system.policy = PolicySpec::from_name(words[1]).unwrap(),
            "be_start" => s.system.be_start = BestEffortStart::SliceDone,
            "rules" => {
                s.system.rules = TableRules::Demos;
                s.system.seed = words[2].parse().unwrap();
            }
            "resources" => s.system.resources = words[1].parse().unwrap(),
            "locking" if words[1] == "fifo" => s.system.locking = Locking::Fifo,
            "process" | "task" => {
                s.names.push(words[1].to_owned());
                let period = span("period");
                s.system.tasks.push(Task {
                    arrival: match period {
                        Some(period) => Arrival::Periodic { offset: span("offset").unwrap_or(Span::ZERO), period },
                        None => Arrival::Activated,
                    },
                    deadline: period,
                    runtime: span("runtime"),
                    budget: if period.is_none() { Some(Span::from_ns(ns(words[2]))) } else { span("budget") },
                    jitter: span("jitter").unwrap_or(Span::ZERO),
                    priority: after(&words, "priority").map_or(0, |p| p.parse().unwrap()),
                    affinity: CpuSet::first(8),
                    completion: match after(&words, "completion") {
                        Some("signal") => Completion::Signal,
                        Some("none") => Completion::None,
                        Some(other) => panic!("{other}"),
                        None => Completion::Undeclared,
                    },
                    on_abort: match after(&words, "on_abort") {
                        Some("finish") => OnAbort::Finish,
                        Some("signal") => OnAbort::Signal,
                        Some("restart") | None => OnAbort::Restart,
                        Some(other) => panic!("{other}"),
                    },
                    ..Task::default()
                });
            }
            "partition" => {
                partitions.push(words[1].to_owned());
                let members = words[2..].iter().take_while(|w| **w != "policy");
                s.system.partitions.push(Partition {
                    tasks: members.map(|name| task(&s.names, name)).collect(),
                    policy: after(&words, "policy").map(|p| PolicySpec::from_name(p).unwrap()),
                });
            }
            "window" => s.system.windows.push(Window { length: Span::from_ns(ns(words[1])), slices: vec![] }),
            "slice" => {
                let id = |name: &str| PartitionId(partitions.iter().position(|p| p == name).expect(name) as u32);
                let slice =
                    Slice { cpus: cpus(words[1]), sc: after(&words, "sc").map(id), be: after(&words, "be").map(id) };
                s.system.windows.last_mut().unwrap().slices.push(slice);
            }
            "at" => {
                let task = task(&s.names, words[3]);
                let resource = || ResourceId(words[4].parse().unwrap());
                let input = match words[2] {
                    "complete" => {
                        let job = words.get(4).map_or(THE_ONE_IT_IS_AT, |job| job.parse().unwrap());
                        Input::Complete { task, job }
                    }
                    "block" => Input::Block { task },
                    "wake" => Input::Wake { task },
                    "abort" => Input::Abort { task },
                    "exit" | "fail" => {
                        let ending = Ending { regular: words[2] == "exit", replaced: words.get(4) == Some(&"restart") };
                        Input::Exit { task, ending }
                    }
                    "request" => Input::Lock { task, resource: resource() },
                    "return" => Input::Unlock { task, resource: resource() },
                    "withdraw" => Input::Withdraw { task, resource: resource() },
                    other => panic!("{other}"),
                };
                s.inputs.push((time(1), input));
            }
            "stall" => s.stall = Some((time(1), time(2))),
            "until" => s.until = time(1),
            other => panic!("{other}"),
        }
    }
    s
}

impl Scene {
    /// Simulates, or drives the engine by the given inputs if there are any; runtimes then mean nothing.
    pub(crate) fn run(self) -> Outcomes {
        let mut engine = Engine::new(self.system.clone()).unwrap();
        let mut records: Vec<Record> = vec![];
        if self.inputs.is_empty() && self.stall.is_none() {
            takt_sim::simulate(
                &mut engine,
                &takt_core::scenario::Scenario::default(),
                self.until - Time::ZERO,
                &mut records,
                |_| (),
            );
        } else {
            let mut inputs = self.inputs.as_slice();
            let mut last = vec![0; self.names.len()];
            while let Some(mut now) = engine.next_due().into_iter().chain(inputs.first().map(|i| i.0)).min() {
                if let Some((_, back)) = self.stall.filter(|&(from, back)| from <= now && now < back) {
                    now = back;
                }
                if now >= self.until {
                    break;
                }
                let seen = inputs.partition_point(|(at, _)| *at <= now);
                let named = |input: &Input| match *input {
                    Input::Complete { task, job: THE_ONE_IT_IS_AT } => {
                        Input::Complete { task, job: last[task.index()] }
                    }
                    input => input,
                };
                let batch: Vec<Input> = inputs[..seen].iter().map(|i| named(&i.1)).collect();
                inputs = &inputs[seen..];
                let _ = engine.step(now, &batch, &mut records);
                for (task, last) in last.iter_mut().enumerate() {
                    *last = engine.at(TaskId(task as u32)).unwrap_or(*last);
                }
            }
            engine.close(self.until, &[], &mut records);
        }
        let lines = records.iter().filter_map(|r| self.line(r, &engine)).collect();
        let counts = (0..self.names.len()).map(|task| engine.counts(TaskId(task as u32))).collect();
        Outcomes { lines, records, totals: engine.totals(), counts, windows_lost: engine.windows_lost() }
    }

    fn line(&self, record: &Record, engine: &Engine) -> Option<String> {
        let name = |task: TaskId| &self.names[task.index()];
        let text = match record.kind {
            RecordKind::Window { window, .. } => format!("window {window}"),
            RecordKind::WindowsLost { count } => format!("lost {count}"),
            RecordKind::Start { task, place, .. } => {
                format!("start {} on {}", name(task), engine.places()[place.index()])
            }
            RecordKind::Stop { reason: takt_core::record::StopReason::Finished, .. } => return None,
            RecordKind::Stop { task, reason, .. } => {
                format!("stop {} {}", name(task), format!("{reason:?}").to_lowercase())
            }
            RecordKind::Finish { task, outcome: Outcome::BudgetUsed, .. } => {
                format!("finish {} budget-used", name(task))
            }
            RecordKind::Finish { task, outcome, .. } => {
                format!("finish {} {}", name(task), format!("{outcome:?}").to_lowercase())
            }
            RecordKind::Block { task, .. } => format!("block {}", name(task)),
            RecordKind::Wake { task, .. } => format!("wake {}", name(task)),
            RecordKind::Lock { task, granted: true, .. } => format!("grant {}", name(task)),
            RecordKind::Lock { task, .. } => format!("wait {}", name(task)),
            RecordKind::Unlock { task, .. } => format!("return {}", name(task)),
            RecordKind::Withdraw { task, .. } => format!("withdraw {}", name(task)),
            RecordKind::LateSignal { task, job } => format!("late-signal {} of job {job}", name(task)),
            RecordKind::Exit { task, failed: false } => format!("exit {}", name(task)),
            RecordKind::Exit { task, failed: true } => format!("exit {} failed", name(task)),
            RecordKind::Behind { task, job, abandoned } => {
                format!("job {job} of {} behind job {abandoned}", name(task))
            }
            RecordKind::Release { .. } | RecordKind::Budget { .. } => return None,
            other => format!("{other:?}"),
        };
        Some(format!("{} {text}\n", ms(record.at)))
    }
}
