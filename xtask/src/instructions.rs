//! `cargo xtask instructions`: what the simulator executes for each completed job, counted by Callgrind. Unlike a time, the figure
//! is the same on a busy machine; it changes with the compiler.

use crate::workspace::{Outcome, released, root};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// The task sets: a file of `crates/takt-sim/tests/data`, its policy and its CPUs, and how many instructions per job are allowed with the
/// compiler of `rust-toolchain.toml`.
const SETS: [(&str, &str, &str, f64); 4] = [
    ("uni10_s1", "edf", "1", 2000.0),
    ("g4_20_s1", "g-edf", "4", 2300.0),
    ("g4_20_s1", "c-edf", "4", 2900.0),
    ("g4_20_s1", "p-edf", "4", 3300.0),
];
/// Seconds of virtual time. The difference between two runs leaves out what is done once.
const SECONDS: [u32; 2] = [20, 120];
/// How many times as many as those of the other program are too many.
const LIMIT: f64 = 1.03;

/// Prints the table, with the figures of another program beside those of this source, and their ratio.
pub(crate) fn run(against: Option<&Path>) -> Outcome {
    match table(against) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn table(against: Option<&Path>) -> Result<()> {
    let takt = released()?;
    println!("instructions per completed job");
    let (mut above, mut too_many) = (Vec::new(), Vec::new());
    for (set, policy, cpus, allowed) in SETS {
        let new = per_job(&takt, set, policy, cpus)?;
        print!("{set:<10} {policy:<6} {cpus} CPU  {new:>8.0}  allowed {allowed:>8.0}");
        above.extend((new > allowed).then(|| format!("{set} {policy}")));
        if let Some(other) = against {
            let old = per_job(other, set, policy, cpus)?;
            print!("  other {old:>8.0}  ratio {:.4}", new / old);
            too_many.extend((new > LIMIT * old).then_some(set));
        }
        println!();
    }
    ensure!(above.is_empty(), "more instructions than allowed: {}", above.join(", "));
    ensure!(too_many.is_empty(), "more than {LIMIT} times those of the other program: {}", too_many.join(", "));
    Ok(())
}

fn per_job(takt: &Path, set: &str, policy: &str, cpus: &str) -> Result<f64> {
    let [short, long] = SECONDS.map(|seconds| count(takt, set, policy, cpus, seconds));
    let ((instructions, jobs), (more_instructions, more_jobs)) = (short?, long?);
    ensure!(more_jobs > jobs, "{set}: no job completed in the longer run");
    Ok((more_instructions - instructions) as f64 / (more_jobs - jobs) as f64)
}

/// The instructions and the completed jobs of one simulation.
fn count(takt: &Path, set: &str, policy: &str, cpus: &str, seconds: u32) -> Result<(u64, u64)> {
    let file = root().join("crates/takt-sim/tests/data").join(set).with_extension("csv");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(takt)
        .arg("sim")
        .arg(&file)
        .args(["--policy", policy, "--cpus", cpus, "--json", "--duration", &format!("{seconds}s")])
        .stdin(Stdio::null())
        .output()
        .context("valgrind (Debian's package `valgrind`) counts the instructions")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} sim {set}: {errors}", takt.display());
    let collected =
        errors.lines().find_map(|line| line.split_once("Collected : ")).context("valgrind printed no count")?;
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let jobs = summary["jobs"]["completed"].as_u64().context("the summary has no completed jobs")?;
    Ok((collected.1.trim().parse()?, jobs))
}
