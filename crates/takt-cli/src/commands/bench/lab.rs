//! Shared parts of the benches: the machine, the place for files, runs of Takt itself, and the way results are shown.

use super::options::Common;
use crate::failure::Failure;
use crate::files;
use crate::outcome::{Outcome, Verdict};
use crate::progress::LINE;
use crate::scratch::Scratch;
use serde_json::{Value, json};
use std::cell;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use takt::report::{Cell, alike, table};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::leftovers::OnCrash;
use takt_linux::{Choice, Mechanism, RunId, rt, watcher};
use takt_trace::{Format, Trace};
use takt_workload::Code;

/// A line under a result: does it hold?
pub(super) struct Claim {
    pub(super) what: String,
    pub(super) measured: Cell,
    /// Its upper limit, in words and times.
    pub(super) limit: Vec<Cell>,
    /// `None` when the measurement is too coarse to tell.
    pub(super) holds: Option<bool>,
}

impl Claim {
    fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "ok",
            Some(false) => "over",
            None => "too coarse",
        }
    }
}

/// The text of a limit from below; `None` where a short round says nothing.
pub(super) fn reached(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "ok",
        Some(false) => "MISSED",
        None => "not judged",
    }
}

/// One bench from its beginning to its end: how it is done, and on what machine.
pub(super) struct Session {
    bench: &'static str,
    pub(super) rounds: u32,
    pub(super) quick: bool,
    load_before: String,
    shown: cell::Cell<bool>,
    /// When a line was last written where there is no terminal.
    said: cell::Cell<Instant>,
}

impl Session {
    pub(super) fn begin(bench: &'static str, rounds: u32, quick: bool) -> Session {
        Session {
            bench,
            rounds,
            quick,
            load_before: load(),
            shown: cell::Cell::new(false),
            said: cell::Cell::new(Instant::now()),
        }
    }

    /// Shows the present step: at once on a terminal, else at most one line every ten seconds. No thread of its own disturbs the
    /// measurement.
    pub(super) fn progress(&self, what: &str) {
        if io::stderr().is_terminal() && takt_exec::is_writable(io::stderr()) {
            let _ = write!(io::stderr(), "\r\x1b[K{}: {what}", self.bench);
            self.shown.set(true);
        } else if !io::stderr().is_terminal() && self.said.get().elapsed() >= LINE {
            // The bench continues without it.
            let _ = writeln!(io::stderr(), "progress: {}: {what}", self.bench);
            self.said.set(Instant::now());
        }
    }

    /// The same within a round.
    pub(super) fn round(&self, round: u32, what: &str) {
        self.progress(&format!("round {round} of {}, {what}", self.rounds));
    }

    /// Takes away what stands on the terminal.
    pub(super) fn clear(&self) {
        if self.shown.take() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// The first line for people, with the facts of this bench alone, and that of the machine and its load.
    pub(super) fn heading(&self, what: &str) -> [String; 2] {
        self.clear();
        let quick = if self.quick { " (quick: the numbers mean nothing)" } else { "" };
        let rounds = if self.rounds == 1 { "1 round".into() } else { format!("medians of {} rounds", self.rounds) };
        let (machine, before, after) = (Machine::read(), &self.load_before, load());
        let Machine { model, cpus, kernel } = machine;
        [
            format!("{}: {rounds}{quick}{what}", self.bench),
            format!("machine: {model}, {cpus} CPUs, Linux {kernel}\nload average before {before}, after {after}"),
        ]
    }

    /// The object for programs, with the keys of this bench alone.
    pub(super) fn json(&self, more: Value) -> Value {
        self.clear();
        let mut object = json!({
            "bench": self.bench, "rounds": self.rounds, "quick": self.quick,
            "machine": Machine::read().json(&self.load_before, &load()),
        });
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        object
    }
}

/// The place where a bench measures.
pub(super) struct Lab {
    pub(super) session: Session,
    dir: Scratch,
    exe: PathBuf,
    /// Names the groups of the bare mechanism, one use after the other.
    pub(super) run_id: RunId,
    /// The CPU that is measured on.
    pub(super) cpu: usize,
    /// The other CPUs that may be used.
    pub(super) others: CpuSet,
    pub(super) choice: Choice,
    pub(super) mechanism: &'static str,
    stolen_before: i64,
    json: bool,
    strict: bool,
    files: cell::Cell<u32>,
}

/// A run of Takt that ended well.
pub(super) struct TaktRun {
    /// The output of `--json`.
    pub(super) json: Value,
    /// Time zero on the monotonic clock.
    pub(super) start: Span,
}

/// The arguments of `takt run` besides the workload.
#[derive(Clone, Copy, Default)]
pub(super) struct RunOptions<'a> {
    pub(super) policy: Option<&'a str>,
    pub(super) duration: Option<Span>,
    /// A power policy, and the imitated machine whose frequencies it sets.
    pub(super) power: Option<(&'a str, &'a Path)>,
}

impl Lab {
    /// Finds out whether this machine can be measured on.
    pub(super) fn new(name: &'static str, common: &Common) -> Result<Lab, Failure> {
        if !rt::rt_allowed() {
            let fix = format!("run it as root: sudo takt bench {name}");
            return Err(Failure::machine(
                Code::MissingCapability,
                "a bench needs the right to real-time classes",
                &fix,
            ));
        }
        let run_id = RunId::new()?;
        let mechanism = Mechanism::open(common.mechanism.choice(), &run_id)
            .map_err(|e| Failure::machine(Code::MissingCapability, &e.reason, &e.fix))?;
        let found = mechanism.name();
        if found == "signal" && common.mechanism.choice() == Choice::Auto {
            let fix = "run it as root with cgroups mounted (see `takt doctor`), or ask for `--mechanism signal`";
            return Err(Failure::machine(Code::MissingCapability, "a bench needs cgroups that can be frozen", fix));
        }
        let choice = match found {
            "v1" => Choice::V1,
            "v2" => Choice::V2,
            _ => Choice::Signal,
        };
        let cpus = mechanism.cpus().intersection(&rt::affinity(0)?);
        let Some(cpu) = common.cpu.or_else(|| cpus.iter().last()).filter(|&cpu| cpus.contains(cpu)) else {
            return Err(Failure::machine(
                Code::MissingCpu,
                format!("CPU {} cannot be used", common.cpu.unwrap_or(0)),
                &format!("name one of CPU {cpus}"),
            ));
        };
        watcher::spawn_watcher(&run_id, OnCrash::Kill)?;
        Ok(Lab {
            session: Session::begin(name, common.rounds.count(&common.form), common.form.quick),
            run_id,
            dir: Scratch::new("takt-bench-")?,
            exe: std::env::current_exe()?,
            cpu,
            others: cpus.difference(&CpuSet::single(cpu)),
            choice,
            mechanism: found,
            stolen_before: stolen(cpu),
            json: common.form.json,
            strict: common.form.strict,
            files: cell::Cell::new(0),
        })
    }

    /// All CPUs that may be used.
    pub(super) fn all(&self) -> CpuSet {
        self.others.union(&CpuSet::single(self.cpu))
    }

    /// A path that was not used before.
    pub(super) fn path(&self, ending: &str) -> PathBuf {
        self.files.set(self.files.get() + 1);
        self.dir.path().join(format!("{}.{ending}", self.files.get()))
    }

    /// The arguments that start a probe of this program.
    pub(super) fn probe<S: AsRef<OsStr>>(&self, args: &[S]) -> Vec<String> {
        let args = args.iter().map(|a| a.as_ref().to_string_lossy().into_owned());
        [self.exe.to_string_lossy().into_owned(), "__probe".into()].into_iter().chain(args).collect()
    }

    /// A `cmd:` for the workload that starts this program without a shell left in between.
    pub(super) fn cmd(&self, args: &[String]) -> String {
        let words: Vec<String> = args.iter().map(|a| format!("'{}'", a.replace('\'', r"'\''"))).collect();
        // A JSON string is a YAML string.
        Value::from(format!("exec {}", words.join(" "))).to_string()
    }

    /// The arguments that start a subcommand of this program.
    pub(super) fn own(&self, args: &[&str]) -> Vec<String> {
        std::iter::once(self.exe.to_string_lossy().into_owned()).chain(args.iter().map(|a| (*a).into())).collect()
    }

    /// Writes a workload to a file.
    pub(super) fn workload(&self, yaml: &str) -> Result<PathBuf, Failure> {
        let path = self.path("yaml");
        files::write(&path, yaml)?;
        Ok(path)
    }

    /// The command that runs a workload with this bench's mechanism.
    pub(super) fn takt_run(&self, file: &Path, trace: &Path, options: RunOptions<'_>) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg("run").arg(file).args(["--json", "--mechanism", self.mechanism, "--trace"]).arg(trace);
        if let Some(policy) = options.policy {
            command.args(["--policy", policy]);
        }
        if let Some(duration) = options.duration {
            command.args(["--duration", &format!("{}ns", duration.ns())]);
        }
        if let Some((power, machine)) = options.power {
            command.args(["--power", power, "--sysfs-root"]).arg(machine);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a workload to its end.
    pub(super) fn run(&self, file: &Path, options: RunOptions<'_>) -> Result<TaktRun, Failure> {
        let trace = self.path("jsonl");
        let run = self.ended(self.takt_run(file, &trace, options), &trace)?;
        fs::remove_file(&trace)?;
        Ok(run)
    }

    /// The same, with its trace.
    pub(super) fn traced_run(&self, file: &Path, options: RunOptions<'_>) -> Result<(TaktRun, Trace), Failure> {
        let path = self.path("jsonl");
        self.traced(self.takt_run(file, &path, options), &path)
    }

    /// The same, of a command that writes its trace there ([`Lab::takt_run`]).
    pub(super) fn traced(&self, command: Command, path: &Path) -> Result<(TaktRun, Trace), Failure> {
        let run = self.ended(command, path)?;
        let trace = takt_trace::read(fs::File::open(path)?, Format::JsonLines)
            .map_err(|e| Failure::status(101, Code::InternalFault, format!("the trace of `takt run`: {e}")))?;
        fs::remove_file(path)?;
        Ok((run, trace))
    }

    fn ended(&self, mut command: Command, trace: &Path) -> Result<TaktRun, Failure> {
        let json = parse(&command.output()?, "run")?;
        let start = start_of(trace)?;
        let start = start.ok_or_else(|| {
            Failure::status(101, Code::InternalFault, "the trace of `takt run` does not say when it started")
        })?;
        Ok(TaktRun { json, start })
    }

    /// Simulates a workload, and gives what `--json` printed and the trace.
    pub(super) fn traced_simulation(&self, file: &Path, options: RunOptions<'_>) -> Result<(Value, Trace), Failure> {
        let path = self.path("jsonl");
        let mut command = self.simulation(file, options);
        let json = parse(&command.arg("--trace").arg(&path).output()?, "sim")?;
        let trace = takt_trace::read(fs::File::open(&path)?, Format::JsonLines)
            .map_err(|e| Failure::status(101, Code::InternalFault, format!("the trace of `takt sim`: {e}")))?;
        fs::remove_file(&path)?;
        Ok((json, trace))
    }

    /// Simulates a workload and returns what `--json` printed.
    pub(super) fn simulate(&self, file: &Path, options: RunOptions<'_>) -> Result<Value, Failure> {
        parse(&self.simulation(file, options).output()?, "sim")
    }

    fn simulation(&self, file: &Path, options: RunOptions<'_>) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg("sim").arg(file).arg("--json");
        if let Some(policy) = options.policy {
            command.args(["--policy", policy]);
        }
        if let Some(duration) = options.duration {
            command.args(["--duration", &format!("{}ns", duration.ns())]);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Shows results: `settings` in words, tables with their headings, limits, and all of it as JSON.
    pub(super) fn show(
        &self,
        settings: &str,
        tables: &[(String, Vec<Vec<Cell>>)],
        claims: &[Claim],
        results: &Value,
    ) -> Outcome {
        let stolen = Span::from_ms((stolen(self.cpu) - self.stolen_before) * 10);
        let mut out = io::stdout().lock();
        if self.json {
            let claim = |c: &Claim| {
                let (measured, limit) = (c.measured.alone(), alike(&c.limit).concat());
                json!({"what": c.what, "measured": measured, "limit": limit, "holds": c.holds})
            };
            let mut object = self.session.json(json!({
                "settings": settings, "cpu": self.cpu, "mechanism": self.mechanism,
                "results": results, "limits": claims.iter().map(claim).collect::<Vec<_>>(),
            }));
            object["machine"]["stolen_ns"] = stolen.ns().into();
            writeln!(out, "{object}")?;
        } else {
            let cpu = self.cpu;
            let [title, machine] = self.session.heading(&format!(", CPU {cpu}, mechanism {}", self.mechanism));
            writeln!(out, "{title}\n{settings}\n{machine}; the host stole {stolen} from CPU {cpu}")?;
            for (heading, rows) in tables {
                writeln!(out, "\n{heading}")?;
                table(&mut out, rows)?;
            }
            if !claims.is_empty() {
                writeln!(out)?;
                table(&mut out, &limits(claims))?;
            }
        }
        let over = claims.iter().any(|c| c.holds == Some(false));
        Ok(if self.strict && over { Verdict::No } else { Verdict::Done })
    }
}

/// The table of limits. What is compared has one unit, in whatever column it stands.
fn limits(claims: &[Claim]) -> Vec<Vec<String>> {
    let cells = claims.iter().flat_map(|c| std::iter::once(&c.measured).chain(&c.limit)).cloned();
    let mut texts = alike(&cells.collect::<Vec<_>>()).into_iter();
    let mut rows = vec![["limit", "measured", "at most", "verdict"].map(String::from).to_vec()];
    for c in claims {
        let measured = texts.by_ref().take(1).collect();
        let limit = texts.by_ref().take(c.limit.len()).collect();
        rows.push(vec![c.what.clone(), measured, limit, c.verdict().into()]);
    }
    rows
}

fn parse(output: &std::process::Output, what: &str) -> Result<Value, Failure> {
    let fault = |why: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::machine(Code::SystemError, format!("`takt {what}` {why}: {}", said.trim()), "see `takt doctor`")
    };
    if !output.status.success() {
        return Err(fault(&format!("ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|_| fault("did not print a JSON object"))
}

/// Time zero of a run on the monotonic clock, from the first line of its trace; `None` as long as it is not there.
pub(super) fn start_of(trace: &Path) -> Result<Option<Span>, Failure> {
    let mut line = String::new();
    match fs::File::open(trace) {
        Ok(file) => io::BufReader::new(file).read_line(&mut line)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(Failure::file("read", trace, &e)),
    };
    let header = serde_json::from_str::<Value>(&line).ok();
    Ok(header.and_then(|h| h["start_monotonic_ns"].as_i64()).map(Span::from_ns))
}

/// A process that is ended when it goes out of scope.
pub(super) struct Child(pub(super) std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Time that a CPU of a virtual machine wanted to run and its host did not let it, in hundredths of a second since
/// the boot.
fn stolen(cpu: usize) -> i64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    line.and_then(|line| line.split_whitespace().nth(7)?.parse().ok()).unwrap_or(0)
}

pub(super) struct Machine {
    pub(super) model: String,
    pub(super) cpus: usize,
    pub(super) kernel: String,
}

impl Machine {
    /// The text that both kinds of benches share.
    pub(super) fn json(&self, load_before: &str, load_after: &str) -> Value {
        json!({"cpu_model": self.model, "cpus": self.cpus, "kernel": self.kernel,
               "load_before": load_before, "load_after": load_after})
    }
    pub(super) fn read() -> Machine {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let models: Vec<&str> =
            fields.filter(|(key, _)| key.trim() == "model name").map(|(_, value)| value.trim()).collect();
        let uname = rustix::system::uname();
        let kernel =
            [uname.release(), uname.version(), uname.machine()].map(|t| t.to_string_lossy().into_owned()).join(" ");
        Machine {
            model: models.first().map_or("CPU of unknown model".into(), |m| (*m).to_string()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::cell;
    use super::*;

    #[test]
    fn a_measure_and_its_limit_have_one_unit() {
        let claim = |what: &str, measured, limit| Claim { what: what.into(), measured, limit, holds: Some(true) };
        let claims = [
            claim("loss", cell(997), vec!["1.5 x ".into(), cell(1_000_000), " = ".into(), cell(1_500_000)]),
            claim("descriptors", "25".into(), vec!["at most 26".into()]),
        ];
        let rows = limits(&claims);
        assert_eq!(rows[1], ["loss", "0.997us", "1.5 x 1000.000us = 1500.000us", "ok"]);
        assert_eq!(rows[2], ["descriptors", "25", "at most 26", "ok"]);
    }
}
