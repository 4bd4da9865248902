//! `takt bench demos`: the schedules of a built DEmOS and of `takt demos`, over the same configurations.
//!
//! DEmOS is another program, under another licence. It is started, and its schedule log is read.

use super::lab::{Child, Claim, Lab};
use super::options::Common;
use super::schedules::{HARDER, SCHEDULES};
use crate::failure::Failure;
use crate::outcome::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use takt::report::Cell;
use takt_linux::leftovers;
use takt_workload::Code;

/// Compare the schedules of DEmOS and of `takt demos` over the same configurations
///
/// DEmOS has to be a debug build, whose schedule log has a line for each activation. Commands of configurations should begin with `exec`. Otherwise
/// DEmOS can lose a process that a shell starts, and then does not end.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The program `demos-sched` of a debug build
    #[arg(long, value_name = "PATH")]
    demos: PathBuf,
    /// Milliseconds for which each of the files runs
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    length: u32,
    /// Configurations; by default the schedules of the tests
    files: Vec<PathBuf>,
}

/// A run that takes so much longer than its length hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long DEmOS may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// A configuration, and what has become of it.
struct Case {
    name: String,
    text: String,
    /// In milliseconds.
    length: String,
    /// By round: the two logs; none of a run that hung.
    rounds: Vec<[Option<String>; 2]>,
}

impl Case {
    /// In how many rounds the logs are the same.
    fn same(&self) -> usize {
        self.rounds.iter().filter(|[demos, takt]| demos.is_some() && demos == takt).count()
    }
    fn hung(&self) -> usize {
        self.rounds.iter().filter(|logs| logs.iter().any(Option::is_none)).count()
    }
    /// Whether the schedules are the same. It is unknown if neither is always so.
    fn agrees(&self) -> Option<bool> {
        match self.same() {
            0 => (self.hung() < self.rounds.len()).then_some(false),
            same if same == self.rounds.len() => Some(true),
            _ => None,
        }
    }
    /// The first line in which two logs differ, of the last round that did.
    fn difference(&self) -> Option<String> {
        let [demos, takt] = self.rounds.iter().rev().find(|[demos, takt]| demos != takt)?;
        let (Some(demos), Some(takt)) = (demos, takt) else { return Some("a run did not end".into()) };
        let longest = demos.lines().count().max(takt.lines().count());
        let line = |log: &str, number: usize| log.lines().nth(number).unwrap_or("(none)").trim().to_owned();
        let number = (0..longest).find(|number| line(demos, *number) != line(takt, *number))?;
        Some(format!("line {}: DEmOS `{}`, Takt `{}`", number + 1, line(demos, number), line(takt, number)))
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let version = version(&args.demos)?;
    let lab = Lab::new("demos", &args.common)?;
    let mut cases = cases(args, lab.session.quick)?;
    for round in 1..=lab.session.rounds {
        for case in &mut cases {
            lab.session.round(round, &format!("{}, DEmOS", case.name));
            let demos = demos(&lab, &args.demos, case)?;
            lab.session.round(round, &format!("{}, Takt", case.name));
            case.rounds.push([demos, takt(&lab, case)?]);
        }
    }
    let head = ["configuration", "ms", "activations", "same", "hung", "first difference"].map(Cell::from).to_vec();
    let lines = |case: &Case| {
        let logs = case.rounds.iter().find_map(|[demos, _]| demos.as_deref());
        logs.map_or("-".to_owned(), |log| log.lines().count().to_string())
    };
    let row = |case: &Case| -> Vec<Cell> {
        vec![
            case.name.clone().into(),
            case.length.clone().into(),
            lines(case).into(),
            format!("{} of {}", case.same(), case.rounds.len()).into(),
            case.hung().to_string().into(),
            case.difference().unwrap_or_else(|| "-".into()).into(),
        ]
    };
    let rows = std::iter::once(head).chain(cases.iter().map(row)).collect();
    let claim = |case: &Case| Claim {
        what: format!("{}: rounds with other lines", case.name),
        measured: (case.rounds.len() - case.same()).to_string().into(),
        limit: vec!["0".into()],
        holds: case.agrees(),
    };
    let claims: Vec<Claim> = cases.iter().map(claim).collect();
    let settings =
        format!("{version}; both with DEMOS_RAND_SEED=2; lines of the schedule log, which have the planned instants");
    let json = |case: &Case| {
        json!({"name": case.name, "length_ms": case.length, "rounds": case.rounds.len(), "same": case.same(),
               "hung": case.hung(), "difference": case.difference()})
    };
    let results = json!({"demos": version, "cases": cases.iter().map(json).collect::<Vec<_>>()});
    lab.show(&settings, &[("schedules, line by line".into(), rows)], &claims, &results)
}

/// The version of DEmOS, whose release builds have no schedule log.
fn version(path: &Path) -> Result<String, Failure> {
    let hint = "build it with `meson setup build --buildtype=debug`, and give the path of `build/src/demos-sched`";
    let missing = |why: String| Failure::machine(Code::MissingProgram, why, hint);
    let output = Command::new(path).arg("-V").stdin(Stdio::null()).output();
    let output = output.map_err(|e| missing(format!("`{}` cannot be started: {e}", path.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match text.contains("debug") {
        true => Ok(text),
        false => Err(missing(format!("`{}` is no debug build of DEmOS: {text}", path.display()))),
    }
}

fn cases(args: &Args, quick: bool) -> Result<Vec<Case>, Failure> {
    let case = |name, text, length| Case { name, text, length, rounds: Vec::new() };
    if args.files.is_empty() {
        let own =
            SCHEDULES.iter().map(|table| ("test 0300", table)).chain(HARDER.iter().map(|table| ("harder", table)));
        let own = own.enumerate().filter(|(index, _)| !quick || index % 6 == 0);
        let own = own.map(|(index, (kind, (text, length, _)))| {
            case(format!("{kind}, {}", index + 1), (*text).to_owned(), (*length).to_owned())
        });
        return Ok(own.collect());
    }
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|e| Failure::file("read", path, &e))?;
        Ok(case(path.display().to_string(), text, args.length.to_string()))
    };
    args.files.iter().map(read).collect()
}

/// Adds the options and the environment that both programs have.
fn given(mut command: Command, case: &Case, log: &Path) -> Command {
    command.args(["-t", &case.length, "-C", &case.text]);
    command.env("DEMOS_SCHEDULE_LOG", log).env("DEMOS_RAND_SEED", "2").env("SPDLOG_LEVEL", "error");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The schedule log of `takt demos`.
fn takt(lab: &Lab, case: &Case) -> Result<Option<String>, Failure> {
    let (log, said) = (lab.path("log"), lab.path("err"));
    let own = lab.own(&["demos", "--mechanism", lab.mechanism]);
    let mut command = Command::new(&own[0]);
    command.args(&own[1..]).stderr(File::create(&said)?);
    let mut run = Child(given(command, case, &log).spawn()?);
    if !run.0.wait()?.success() {
        let text = fs::read_to_string(&said).unwrap_or_default();
        let reason = format!("`takt demos` has failed with {}: {}", case.name, text.trim());
        return Err(Failure::machine(Code::SystemError, reason, "see `takt doctor`"));
    }
    Ok(Some(fs::read_to_string(&log).map_err(|e| Failure::file("read", &log, &e))?))
}

/// The schedule log of DEmOS; `None` if it did not end. Nothing is left of it.
fn demos(lab: &Lab, path: &Path, case: &Case) -> Result<Option<String>, Failure> {
    let (log, said) = (lab.path("log"), lab.path("err"));
    let group = format!("bench-demos-{}", std::process::id());
    let mut command = Command::new(path);
    command.args(["-g", &group]).stderr(File::create(&said)?);
    let mut run = Child(given(command, case, &log).spawn()?);
    let length = Duration::from_millis(case.length.parse().unwrap_or(0));
    let status = match waited(&mut run, length + PATIENCE)? {
        Some(status) => Some(status),
        None => {
            let _ = kill_process(Pid::from_child(&run.0), Signal::TERM);
            waited(&mut run, GRACE)?;
            None
        }
    };
    drop(run);
    leftovers::remove_group(&group)?;
    match status {
        Some(status) if status.success() => {
            Ok(Some(fs::read_to_string(&log).map_err(|e| Failure::file("read", &log, &e))?))
        }
        Some(status) => {
            let text = fs::read_to_string(&said).unwrap_or_default();
            let reason = format!("DEmOS ended with {status} with {}: {}", case.name, text.trim());
            Err(Failure::machine(Code::MissingProgram, reason, "try the same command without Takt"))
        }
        None => Ok(None),
    }
}

/// Its status, unless it takes longer.
fn waited(run: &mut Child, time: Duration) -> Result<Option<std::process::ExitStatus>, Failure> {
    let end = Instant::now() + time;
    loop {
        match run.0.try_wait()? {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            ended => return Ok(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_agree_line_by_line() {
        let log = |text: &str| Some(text.to_owned());
        let case = |rounds: Vec<[Option<String>; 2]>| Case {
            name: "a".into(),
            text: String::new(),
            length: "10".into(),
            rounds,
        };
        let same = || [log(" 0: a\n 5: b\n"), log(" 0: a\n 5: b\n")];
        let other = || [log(" 0: a\n 5: b\n"), log(" 0: a\n")];
        let all = case(vec![same(), same()]);
        assert_eq!((all.same(), all.agrees(), all.difference()), (2, Some(true), None));
        let some = case(vec![same(), other()]);
        assert_eq!((some.same(), some.agrees()), (1, None));
        assert_eq!(some.difference().unwrap(), "line 2: DEmOS `5: b`, Takt `(none)`");
        assert_eq!(case(vec![other(), other()]).agrees(), Some(false));
        let hung = case(vec![[None, log("")], [None, log("")]]);
        assert_eq!((hung.hung(), hung.agrees()), (2, None));
    }
}
