//! `cargo xtask times`: CPU time of the static program, or of another `takt`, beside the ordinary program, in turns.

use crate::deb::{self, output};
use crate::workspace::{Outcome, released, root};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Runs of each program and command. The median is compared.
const ROUNDS: usize = 7;
/// How many times as long the other program may take.
const LIMIT: f64 = 1.15;
/// Commands that are measured. Paths begin at the root.
const COMMANDS: [&[&str]; 4] = [
    &["bench", "simulate", "--rounds", "1", "--duration", "300s"],
    &["bench", "analyze", "--rounds", "1"],
    &[
        "analyze",
        "crates/takt-analysis/tests/data/airs_W3.6.csv",
        "--cpus",
        "4",
        "--test",
        "gfb,bcl,bak,gedf-rta,ff,wf,wm_ff,ceqd_ff",
    ],
    &["analyze", "crates/takt-analysis/tests/data/sweep_n10.csv", "--test", "edf,rm-rta,dm-rta"],
];

/// Compares the static program of a release, or another one, with the ordinary one.
pub(crate) fn run(other: Option<&Path>) -> Outcome {
    match compared(other) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn compared(other: Option<&Path>) -> Result<()> {
    let own = released()?;
    let other = match other {
        Some(other) => std::path::absolute(other)?,
        None => deb::build(deb::native()?, deb::PROFILE)?,
    };
    println!("user CPU time, medians of {ROUNDS} runs in turns\n{:>9} {:>9} {:>6}", "ordinary", "other", "ratio");
    let mut slow = Vec::new();
    for command in COMMANDS {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            // Each begins as often as the other.
            for which in [round % 2, 1 - round % 2] {
                times[which].push(user_time([&own, &other][which], command)?);
            }
        }
        let [own, other] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        let ratio = other / own;
        println!("{own:>8.3}s {other:>8.3}s {ratio:>6.3}  takt {}", command.join(" "));
        slow.extend((ratio > LIMIT).then(|| format!("{}: {ratio:.3}", command[..2].join(" "))));
    }
    ensure!(slow.is_empty(), "more than {LIMIT} times the time: {}", slow.join(", "));
    Ok(())
}

/// Seconds of CPU time in user mode that a command takes.
fn user_time(program: &Path, arguments: &[&str]) -> Result<f64> {
    let mut timed = Command::new("bash");
    timed.args(["-c", "TIMEFORMAT=%U; { time \"$@\" > /dev/null 2>&1; } 2>&1", "bash"]).arg(program).args(arguments);
    let text = output(timed.current_dir(root()).env("LC_ALL", "C"))?;
    text.trim().parse().with_context(|| format!("takt {}: {text}", arguments.join(" ")))
}
