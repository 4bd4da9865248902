//! `cargo xtask instructions`: what the simulator executes for each completed job, counted by Callgrind. Unlike a time, the figure
//! is the same on a busy machine; it changes with the compiler.

use crate::workspace::{Outcome, cargo, in_ci, metadata, released, root};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that is counted; no member of the workspace.
const PROGRAM: &str = "xtask/instructions/Cargo.toml";
/// Its figures with the compiler of `rust-toolchain.toml`: a task set of `crates/takt-sim/tests/data`, a policy, CPUs, and instructions per completed job.
const FIGURES: &str = "xtask/instructions/figures.csv";
/// Seconds of virtual time. The difference between two runs leaves out what is done once.
const SECONDS: [u32; 2] = [20, 120];
/// How many times as many as the recorded figure are too many.
const LIMIT: f64 = 1.02;
/// The same for `takt` beside another program.
const LIMIT_OF_OTHER: f64 = 1.03;

/// A line of the figures.
struct Figure<'a> {
    set: &'a str,
    policy: &'a str,
    cpus: &'a str,
    recorded: f64,
}

/// Counts a small program around the simulator, and compares that with the recorded figures. With `UPDATE=1` it records new ones.
pub(crate) fn run() -> Outcome {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        let why = "valgrind (Debian's package `valgrind`) counts the instructions".to_owned();
        return if in_ci() { Outcome::Failed(why) } else { Outcome::Skipped(why) };
    }
    outcome(table())
}

/// Counts `takt` and another program in its place.
pub(crate) fn beside(other: &Path) -> Outcome {
    outcome(comparison(other))
}

fn outcome(result: Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn table() -> Result<()> {
    let path = root().join(FIGURES);
    let text = std::fs::read_to_string(&path).with_context(|| FIGURES.to_owned())?;
    let program = built()?;
    println!("instructions per completed job");
    let (mut renewed, mut too_many) = (String::from("set,policy,cpus,instructions\n"), Vec::new());
    for Figure { set, policy, cpus, recorded } in figures(&text)? {
        let [short, long] = SECONDS.map(|seconds| {
            let (instructions, output) =
                count(Command::new(&program).arg(data(set)).args([policy, cpus, &seconds.to_string()]))?;
            anyhow::Ok((instructions, String::from_utf8(output)?.trim().parse()?))
        });
        let found = per_job(short?, long?)?;
        println!(
            "{set:<10} {policy:<6} {cpus:>3} CPU  {found:>8.0}  recorded {recorded:>8.0}  ratio {:.4}",
            found / recorded
        );
        writeln!(renewed, "{set},{policy},{cpus},{found:.1}")?;
        too_many.extend((found > LIMIT * recorded).then(|| format!("{set} {policy}")));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, renewed)?;
        return Ok(());
    }
    ensure!(
        too_many.is_empty(),
        "more than {LIMIT} times the recorded instructions: {}; if that is meant: UPDATE=1 cargo xtask instructions",
        too_many.join(", ")
    );
    Ok(())
}

/// The recorded figures.
fn figures(text: &str) -> Result<Vec<Figure<'_>>> {
    let figure = |line| {
        let columns: Vec<&str> = str::split(line, ',').collect();
        let &[set, policy, cpus, recorded] = &*columns else {
            anyhow::bail!("{FIGURES}: `{line}` has not four columns")
        };
        Ok(Figure { set, policy, cpus, recorded: recorded.parse().with_context(|| format!("{FIGURES}: `{line}`"))? })
    };
    text.lines().skip(1).map(figure).collect()
}

/// Builds the program that is counted.
fn built() -> Result<PathBuf> {
    let target = PathBuf::from(metadata()?["target_directory"].as_str().context("no target directory")?);
    let target = target.join("instructions");
    let arguments = ["build", "--locked", "--quiet", "--release", "--manifest-path", PROGRAM, "--target-dir"];
    let status = cargo(&arguments).arg(&target).status()?;
    ensure!(status.success(), "the program cannot be built");
    Ok(target.join("release/instructions"))
}

fn comparison(other: &Path) -> Result<()> {
    let takt = released()?;
    println!("instructions per completed job of `takt sim`");
    let mut too_many = Vec::new();
    for (set, policy, cpus) in
        [("uni10_s1", "edf", "1"), ("g4_20_s1", "g-edf", "4"), ("g4_20_s1", "c-edf", "4"), ("g4_20_s1", "p-edf", "4")]
    {
        let [new, old] = [&takt, other].map(|program| simulated(program, set, policy, cpus));
        let (new, old) = (new?, old?);
        println!("{set:<10} {policy:<6} {cpus:>3} CPU  {new:>8.0}  other {old:>8.0}  ratio {:.4}", new / old);
        too_many.extend((new > LIMIT_OF_OTHER * old).then_some(set));
    }
    ensure!(
        too_many.is_empty(),
        "more than {LIMIT_OF_OTHER} times those of the other program: {}",
        too_many.join(", ")
    );
    Ok(())
}

/// The instructions of `takt sim` for each completed job.
fn simulated(takt: &Path, set: &str, policy: &str, cpus: &str) -> Result<f64> {
    let [short, long] = SECONDS.map(|seconds| {
        let duration = format!("{seconds}s");
        let options = ["--policy", policy, "--cpus", cpus, "--json", "--duration", &duration];
        let (instructions, output) = count(Command::new(takt).arg("sim").arg(data(set)).args(options))?;
        let summary: serde_json::Value = serde_json::from_slice(&output)?;
        anyhow::Ok((instructions, summary["jobs"]["completed"].as_u64().context("the summary has no completed jobs")?))
    });
    per_job(short?, long?)
}

fn data(set: &str) -> PathBuf {
    root().join("crates/takt-sim/tests/data").join(set).with_extension("csv")
}

/// The instructions for each completed job, from two runs with their instructions and jobs.
fn per_job((instructions, jobs): (u64, u64), (more_instructions, more_jobs): (u64, u64)) -> Result<f64> {
    ensure!(more_jobs > jobs, "no job completed in the longer run");
    Ok((more_instructions - instructions) as f64 / (more_jobs - jobs) as f64)
}

/// The instructions of a program, and its output.
fn count(command: &Command) -> Result<(u64, Vec<u8>)> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .output()
        .context("valgrind (Debian's package `valgrind`) counts the instructions")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    let collected =
        errors.lines().find_map(|line| line.split_once("Collected : ")).context("valgrind printed no count")?;
    Ok((collected.1.trim().parse()?, output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_faults_named() {
        let read = figures("set,policy,cpus,instructions\na,edf,1,1000.5\nb,g-edf,4,2000\n").expect("two figures");
        let all: Vec<_> = read.iter().map(|figure| (figure.set, figure.policy, figure.cpus, figure.recorded)).collect();
        assert_eq!(all, [("a", "edf", "1", 1000.5), ("b", "g-edf", "4", 2000.0)]);
        for wrong in ["set\na,edf,1", "set\na,edf,1,many"] {
            let message = figures(wrong).err().expect("a fault").to_string();
            assert!(message.contains(FIGURES) && message.contains("a,edf,1"), "{message}");
        }
    }

    #[test]
    fn the_recorded_figures_are_ten() {
        let text = std::fs::read_to_string(root().join(FIGURES)).expect(FIGURES);
        assert_eq!(figures(&text).expect("figures").len(), 10);
    }
}
