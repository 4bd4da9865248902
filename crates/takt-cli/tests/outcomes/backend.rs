//! Drivers of a workload, and the outcomes that they report.

use crate::instances::Instance;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_linux::rt;
use takt_trace::{Format, Trace};

/// The decisions of a run: for each task its name and counts, and the order of what happened to jobs.
#[derive(Clone, Debug)]
pub(crate) struct Outcomes {
    pub(crate) tasks: Vec<(String, String)>,
    pub(crate) order: Vec<String>,
    /// By how much the machine delayed the run.
    pub(crate) delays: Delays,
}

/// The effects of a machine on a run.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Delays {
    /// The largest lateness of the scheduler at a planned instant.
    pub(crate) lateness: Span,
    /// The longest switch.
    pub(crate) switch: Span,
    /// The time that the host took from the CPUs.
    pub(crate) stolen: Span,
    /// The waits of the processes of one task for their CPU in their turns, all together.
    pub(crate) waited: Span,
    /// The time for which one task had a CPU and did not use it, all together.
    pub(crate) lost: Span,
    /// How long the machine stood still at once.
    pub(crate) still: Span,
}

impl Delays {
    /// The delay that is more than the workload bears, in words. A workload bears its slack at one instant, and over the whole run
    /// also what disturbs all runs a little: interrupts, kernel threads, and the scheduler itself.
    pub(crate) fn stall(&self, instance: &Instance) -> Option<String> {
        let at_once = instance.slack;
        let in_all = instance.slack + instance.duration / 64;
        let kinds = [
            ("the scheduler was late by", self.lateness, at_once),
            ("a switch took", self.switch, at_once),
            ("the host took", self.stolen, at_once),
            ("the machine stood still for", self.still, at_once),
            ("a task waited", self.waited, in_all),
            ("a task lost", self.lost, in_all),
        ];
        let (what, delay, bears) = kinds.into_iter().find(|(_, delay, bears)| delay > bears)?;
        Some(format!("{what} {delay}, and the workload bears {bears}"))
    }
}

impl Outcomes {
    /// The first difference, in words.
    pub(crate) fn difference(&self, run: &Outcomes) -> Option<String> {
        for ((name, counts), (other, run)) in self.tasks.iter().zip(&run.tasks) {
            if (name, counts) != (other, run) {
                return Some(format!("{name} simulated {counts}\n{other} run {run}"));
            }
        }
        if self.tasks.len() != run.tasks.len() {
            return Some(format!("simulated {} tasks, run {}", self.tasks.len(), run.tasks.len()));
        }
        if self.order == run.order {
            return None;
        }
        let at = self.order.iter().zip(&run.order).position(|(a, b)| a != b);
        let at = at.unwrap_or(self.order.len().min(run.order.len()));
        let [simulated, run] =
            [&self.order, &run.order].map(|o| o[at.saturating_sub(2)..(at + 4).min(o.len())].join(", "));
        Some(format!("order from event {at} on: simulated {simulated}\nrun {run}"))
    }
}

/// A driver of workloads.
pub(crate) trait Backend {
    fn name(&self) -> String;
    fn outcomes(&self, instance: &Instance) -> Outcomes;
}

/// Virtual time: `takt sim`.
pub(crate) struct Simulator;

impl Backend for Simulator {
    fn name(&self) -> String {
        "simulator".to_owned()
    }
    fn outcomes(&self, instance: &Instance) -> Outcomes {
        takt(instance, "", &["sim"], None)
    }
}

/// Real processes: `takt run` with one of its mechanisms.
pub(crate) struct Processes {
    mechanism: &'static str,
    stalls: bool,
    /// How processes are dispatched, if the default is not meant.
    dispatch: Option<&'static str>,
    /// The user of Takt and of the processes, if it is another one.
    user: Option<u32>,
}

impl Processes {
    pub(crate) fn new(mechanism: &'static str) -> Processes {
        Processes { mechanism, stalls: true, dispatch: None, user: None }
    }
    /// The capability for instances that give their processes a real-time class.
    pub(crate) fn dispatched(mechanism: &'static str, dispatch: &'static str) -> Processes {
        Processes { dispatch: Some(dispatch), ..Processes::new(mechanism) }
    }
    /// The capability for a user, who needs no rights with this mechanism.
    pub(crate) fn of_user(mechanism: &'static str, user: u32) -> Processes {
        Processes { user: Some(user), ..Processes::new(mechanism) }
    }
    /// On a machine whose time is virtual, where nothing can stall.
    pub(crate) fn virtual_time(mechanism: &'static str) -> Processes {
        Processes { stalls: false, ..Processes::new(mechanism) }
    }
    /// Whether the machine can delay a run.
    pub(crate) fn stalls(&self) -> bool {
        self.stalls
    }
}

impl Backend for Processes {
    fn name(&self) -> String {
        let dispatch = self.dispatch.map(|dispatch| format!(" with `dispatch: {dispatch}`"));
        let user = self.user.map(|user| format!(" for user {user}"));
        format!("{}{}{}", self.mechanism, dispatch.unwrap_or_default(), user.unwrap_or_default())
    }
    fn outcomes(&self, instance: &Instance) -> Outcomes {
        let dispatch = self.dispatch.map(|dispatch| format!("dispatch: {dispatch}\n")).unwrap_or_default();
        takt(instance, &dispatch, &["run", "--mechanism", self.mechanism], self.user)
    }
}

/// Runs `takt` on an instance with further keys, as this user, and reads its summary and its trace. A run is replayed.
///
/// # Panics
/// When the replay of a run differs from it, whatever the machine did to the run.
fn takt(instance: &Instance, keys: &str, command: &[&str], user: Option<u32>) -> Outcomes {
    let room = tempfile::Builder::new().prefix("takt-test-").tempdir().expect("a directory");
    fs::write(room.path().join("w.yaml"), format!("{keys}{}", instance.text)).expect("a file");
    let duration = instance.duration.to_string();
    let executes = |command: &[&str], options: &[&str], trace: &str| {
        // A virtual machine has the program elsewhere.
        let mut program =
            PathBuf::from(std::env::var("TAKT_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_takt").into()));
        let mut process = Command::new(&program);
        if command[0] == "run" {
            // Processes without a real-time class share their CPUs with everything else, of which they are to come first.
            process.args(["__probe", "ahead", "--"]);
            if let Some(user) = user {
                let ids = [format!("--reuid={user}"), format!("--regid={user}")];
                process.args(["setpriv", "--clear-groups"]).args(ids).arg("--");
                // Others may not enter the folder of the build.
                program = room.path().join("takt");
            }
            process.arg(&program);
        }
        process.args(command).args(["w.yaml", "--json", "--trace", trace]).args(options);
        let done = process.current_dir(room.path()).stdin(Stdio::null()).output().expect("takt starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{} {command:?}: {said}\n{}", instance.name, instance.text);
        let summary: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
        let file = fs::File::open(room.path().join(trace)).expect("a trace");
        (summary, takt_trace::read(file, Format::JsonLines).expect("a whole trace"))
    };
    let runs = command[0] == "run";
    let _answers = runs.then(|| Answers::begin(room.path(), &instance.answers));
    if user.is_some() {
        fs::copy(env!("CARGO_BIN_EXE_takt"), room.path().join("takt")).expect("a copy of the program");
        files_of(room.path()).iter().for_each(|path| chown(path, user, user).expect("root gives its files away"));
    }
    let record: &[&str] = if runs { &["--record", "r.steps"] } else { &[] };
    let (summary, trace) = executes(command, &[record, &["--duration", &duration]].concat(), "t.jsonl");
    let outcomes =
        Outcomes { tasks: tasks(&summary), order: order(&trace), delays: delays(instance, &summary, &trace) };
    if runs {
        let (again, replayed) = executes(&["sim"], &["--replay", "r.steps"], "again.jsonl");
        let [run, replay] = [&trace, &replayed].map(|trace| trace.records.iter().map(|r| r.record).collect::<Vec<_>>());
        let difference = differs(&run, &replay).or_else(|| {
            let again = tasks(&again);
            (outcomes.tasks != again).then(|| format!("the run counts {:?}\nits replay {again:?}", outcomes.tasks))
        });
        if let Some(difference) = difference {
            panic!("{} {command:?} is not what its replay is: {difference}\n{keys}{}", instance.name, instance.text);
        }
    }
    outcomes
}

/// A folder and its files.
fn files_of(room: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(room).expect("a directory").map(|file| file.expect("a file").path());
    files.chain([room.to_owned()]).collect()
}

/// Another program, outside of the schedule, that answers what tasks write, each answer after its time. It ends when it is dropped.
struct Answers(Vec<(fs::File, JoinHandle<()>)>);

impl Answers {
    /// Makes the pipes of these tasks, and answers.
    fn begin(room: &Path, tasks: &[(String, Span)]) -> Answers {
        let begin = |(task, time): &(String, Span)| {
            let pipe = |what: &str| {
                let path = room.join(format!("{task}.{what}"));
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
                // With both directions there is no wait for the other side.
                fs::File::options().read(true).write(true).open(path).expect("a pipe")
            };
            let (questions, answers) = (pipe("questions"), pipe("answers"));
            let end = questions.try_clone().expect("a copy");
            let time = Duration::from_nanos(time.ns().unsigned_abs());
            (end, std::thread::spawn(move || answer(questions, answers, time)))
        };
        Answers(tasks.iter().map(begin).collect())
    }
}

/// Answers each byte after this time, until a byte asks it to end. In a real-time class other load does not delay it.
fn answer(mut questions: fs::File, mut answers: fs::File, time: Duration) {
    if rt::rt_allowed() {
        // Without it, answers are late under load, and the run may differ for that.
        let _ = rt::set_class(0, rt::Class::Fifo(75));
    }
    let mut question = [0];
    while questions.read_exact(&mut question).is_ok() && question[0] != END {
        std::thread::sleep(time);
        if answers.write_all(b"\n").is_err() {
            return;
        }
    }
}

/// The byte that ends a thread that answers. Programs write another one.
const END: u8 = b'q';

impl Drop for Answers {
    fn drop(&mut self) {
        for (mut end, thread) in self.0.drain(..) {
            let _ = end.write_all(&[END]);
            let _ = thread.join();
        }
    }
}

/// The first record of a run that is another one in its replay, in words.
pub(crate) fn differs(run: &[Record], replay: &[Record]) -> Option<String> {
    let last = run.len().max(replay.len());
    let at = (0..last).find(|n| run.get(*n) != replay.get(*n))?;
    Some(format!("record {at} of {}: {:?} became {:?}", run.len(), run.get(at), replay.get(at)))
}

fn tasks(summary: &Value) -> Vec<(String, String)> {
    const COUNTS: [&str; 8] = ["released", "completed", "met", "missed", "aborted", "behind", "activations", "cut_off"];
    let of_task = |task: &Value| {
        let counts = COUNTS.map(|key| format!("{key} {}", task[key])).join(", ");
        let utility = if task["utility"].is_object() { &task["utility"]["accrued"] } else { &Value::Null };
        (task["name"].to_string(), format!("{counts}, utility {utility}"))
    };
    summary["tasks"].as_array().into_iter().flatten().map(of_task).collect()
}

/// How jobs began and ended, in the order of the trace. Preemptions are left out: a job that is preempted just before it ends is none.
fn order(trace: &Trace) -> Vec<String> {
    let (names, mut begun) = (trace.header.labels(), HashSet::new());
    let mut order = Vec::new();
    for record in &trace.records {
        order.extend(match record.record.kind {
            RecordKind::Start { task, job, .. } => {
                begun.insert((task, job)).then(|| format!("{} begins {job}", names[task.index()]))
            }
            // The end of the run and what ends with it are one instant.
            RecordKind::Finish { task, job, outcome, .. } if outcome != Outcome::Skipped => {
                Some(format!("{} ends {job} {outcome:?}", names[task.index()]))
            }
            RecordKind::Behind { task, job, abandoned } => {
                Some(format!("{} is behind in {job} with {abandoned}", names[task.index()]))
            }
            RecordKind::LateSignal { task, job } => Some(format!("{} signals {job} late", names[task.index()])),
            RecordKind::Handler { task, job, .. } => Some(format!("{} handles {job}", names[task.index()])),
            RecordKind::Lock { task, granted: false, .. } => Some(format!("{} waits for a lock", names[task.index()])),
            RecordKind::Call { task, job, granted, .. } => {
                Some(format!("{} calls in {job} {granted}", names[task.index()]))
            }
            _ => None,
        });
    }
    order
}

fn delays(instance: &Instance, summary: &Value, trace: &Trace) -> Delays {
    let waited = summary["tasks"].as_array().into_iter().flatten().filter_map(|task| task["waited_ns"].as_i64()).max();
    let span = |value: &Value| Span::from_ns(value.as_i64().unwrap_or(0));
    Delays {
        lateness: span(&summary["lateness_ns"]["max"]),
        switch: span(&summary["switch_ns"]["max"]),
        stolen: span(&summary["stolen_ns"]),
        waited: Span::from_ns(waited.unwrap_or(0)),
        // A job that blocks does not use its CPU either, which excuses nothing.
        lost: if instance.blocks() { Span::ZERO } else { lost(summary, trace) },
        still: Span::ZERO,
    }
}

/// The most that a task had a CPU for beyond what it used of it: what something else took, seen by this machine or not.
fn lost(summary: &Value, trace: &Trace) -> Span {
    let mut had = vec![Span::ZERO; trace.header.tasks.len()];
    let mut since = vec![None; had.len()];
    for record in &trace.records {
        match record.record.kind {
            RecordKind::Start { task, .. } => since[task.index()] = Some(record.applied),
            RecordKind::Stop { task, .. } => {
                let from: Option<Time> = since[task.index()].take();
                had[task.index()] += from.map_or(Span::ZERO, |from| (record.applied - from).or_zero());
            }
            _ => {}
        }
    }
    let used = summary["tasks"].as_array().into_iter().flatten().map(|task| task["cpu_ns"].as_i64());
    let lost = had.iter().zip(used).filter_map(|(had, used)| Some((*had - Span::from_ns(used?)).or_zero()));
    lost.max().unwrap_or(Span::ZERO)
}
