//! `takt analyze`: schedulability tests, one verdict per task set and test.

use crate::failure::Failure;
use crate::input::{Input, Priorities, duration, placement, warn, without_kernel};
use crate::outcome::{Outcome, Verdict};
use crate::parallel;
use crate::progress::Progress;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use takt::analysis::{Analysis, Question, Subject, grows};
use takt::report::aligned;
use takt::{sets, verdicts};
use takt_analysis::tests::TESTS;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::Placement;
use takt_core::time::Span;
use takt_workload::Code;

/// Schedulability tests, one verdict per task set and test
///
/// Task sets in CSV give CSV. A cell is `1` for schedulable, or `unknown`. It is `0` if a test shows a miss, or if a sufficient test is inconclusive.
/// A test that applies to no set is refused. A workload in YAML, or one set with `--table`, gives a table with the kind of each test and the
/// reason of each verdict. Status 1: there is one set, no test accepts it, and one shows that it misses a deadline.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Task sets in CSV (`set_id,task_id,C_us,D_us,T_us`), or a workload in YAML
    #[arg(required_unless_present = "list")]
    file: Option<PathBuf>,
    /// List the tests. Exact tests are exact for tasks that can be released together (see `kind` in the table of one set)
    #[arg(long, exclusive = true)]
    list: bool,
    /// Number of CPUs; by default one, or as many as the workload names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: Option<u16>,
    /// Tests by name, with commas between; `sim:POLICY` simulates a policy, `all` is every test for so many CPUs
    #[arg(long, value_name = "NAMES", default_value = "all")]
    test: String,
    /// How simulated policies place tasks on CPUs, as in `sim:p-edf`: ff, bf, wf, ffd, bfd or wfd; by default ffd
    #[arg(long, value_parser = placement)]
    placement: Option<Placement>,
    /// Simulated time, beginning with a release of all tasks together
    #[arg(long, value_parser = duration, default_value = "60s")]
    duration: Span,
    /// Rule that assigns priorities to tasks in CSV, for simulated policies that rank by priority; by default rm
    #[arg(long, value_enum)]
    priorities: Option<Priorities>,
    /// Seed of random priorities, and of the random values of a workload; by default 0, or that of the workload
    #[arg(long)]
    seed: Option<u64>,
    /// Largest factor for all runtimes that a test still accepts, exact for `edf`, `rm-rta` and `dm-rta` on one CPU. If the search
    /// would take too long, bounds are printed (in CSV `>=` and the lower one)
    #[arg(long)]
    sensitivity: bool,
    /// Bound of the tardiness under global EDF with deadlines at the ends of the periods, as a column of CSV. On several CPUs tables and
    /// JSON always have it
    #[arg(long)]
    tardiness: bool,
    /// The CPU of each task, and the pieces of split tasks, by each test that assigns tasks to CPUs. For one set JSON always has it,
    /// and a table has it if a task is split
    #[arg(long)]
    assignment: bool,
    /// Print a table of one set
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Some(file) = args.file.as_deref() else { return list() };
    let is_csv = sets::is_csv(file);
    let (subjects, cpus) = if is_csv { from_csv(args, file)? } else { from_yaml(args, file)? };
    let methods = verdicts::methods(&args.test, cpus, args.placement)?;
    let as_csv = is_csv && !args.table && !args.json;
    if args.assignment && as_csv {
        return Err(Failure::input(
            Code::ConflictingOptions,
            "CSV has no room for assignments",
            "add `--json`, or for one set `--table`",
        ));
    }
    if args.sensitivity && !methods.iter().any(grows) {
        let _ = writeln!(io::stderr(), "note: only edf, rm-rta and dm-rta say how far runtimes may grow");
    }
    let question = Question {
        methods,
        cpus,
        duration: args.duration,
        priorities: is_csv.then(|| (args.priorities.unwrap_or_default().into(), args.seed.unwrap_or(0))),
        sensitivity: args.sensitivity,
        places: args.assignment || subjects.len() == 1 && !as_csv,
    };
    let progress = Progress::of(subjects.len() as u64, "sets");
    let answer = |index: usize| question.ask(index, &subjects[index]);
    let answered = parallel::map(subjects.len(), parallel::threads(), answer, |_, _| progress.inc(1));
    progress.finish();
    let analysis = Analysis::new(question, answered, &subjects);
    if is_csv {
        let silent = analysis.silent()?;
        for line in silent.iter().filter(|_| as_csv) {
            let _ = writeln!(io::stderr(), "note: {line}");
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let object = serde_json::to_value(analysis.result()).map_err(io::Error::from)?;
        writeln!(out, "{object}")?;
    } else if as_csv {
        analysis.csv(args.tardiness, &mut out)?;
        for note in analysis.notes() {
            // The verdicts stand without it.
            let _ = writeln!(io::stderr(), "note: {note}");
        }
    } else if analysis.sets() == 1 {
        analysis.table(args.tardiness, args.assignment, &file.display().to_string(), &mut out)?;
        for (index, note) in analysis.notes().iter().enumerate() {
            writeln!(out, "{}note: {note}", if index == 0 { "\n" } else { "" })?;
        }
    } else {
        let message = format!("`{}` holds {} task sets, and a table shows one", file.display(), analysis.sets());
        return Err(Failure::input(Code::NotSupportedHere, message, "leave `--table` out, or keep one of the sets"));
    }
    out.flush()?;
    Ok(if analysis.is_no() { Verdict::No } else { Verdict::Done })
}

/// The tests, one a line.
fn list() -> Outcome {
    let mut rows = vec![["name", "CPUs", "kind", "about", "source"].map(String::from).to_vec()];
    for test in TESTS {
        let cpus = if test.one_cpu { "1" } else { "any" };
        let source = if test.paper.is_empty() { "-" } else { test.paper };
        rows.push([test.name, cpus, &test.kind.to_string(), test.title, source].map(String::from).to_vec());
    }
    let simulated = "a policy, simulated from the first releases on";
    rows.push(["sim:POLICY", "any", "necessary", simulated, "-"].map(String::from).to_vec());
    rows.push(["gedf_sim", "any", "necessary", "the same as sim:g-edf", "-"].map(String::from).to_vec());
    let mut out = BufWriter::new(io::stdout().lock());
    aligned(&mut out, &rows, |_| true)?;
    writeln!(
        out,
        "\nexact: for tasks that can be released together; where first releases keep them apart, sufficient"
    )?;
    out.flush()?;
    Ok(Verdict::Done)
}

fn from_csv(args: &Args, file: &Path) -> Result<(Vec<Subject>, usize), Failure> {
    let cpus = args.cpus.map_or(1, usize::from);
    let (_, sets) = sets::read(file)?;
    Ok((sets.into_iter().map(|set| Subject::of_set(set, cpus)).collect(), cpus))
}

fn from_yaml(args: &Args, file: &Path) -> Result<(Vec<Subject>, usize), Failure> {
    let input = Input {
        file: file.to_path_buf(),
        policy: None,
        placement: None,
        cpus: args.cpus,
        priorities: args.priorities,
        seed: args.seed,
        ..Input::default()
    };
    let workload = input.load_quietly(None)?;
    without_kernel(&workload, "the tests know the tasks of the policy alone", "takt check")?;
    warn(&workload.source, &workload.warnings);
    let cpus = workload.system.cpus.len();
    Ok((vec![Subject::of_workload(workload)?], cpus))
}
