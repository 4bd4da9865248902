//! Results of two builds of `takt`: the same input and seed must give the same bytes in simulations, traces in each format, verdicts and sweeps.
//! Every workload of the repository is compared.

use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Commands beside those about workloads. Random sets are the only floating point.
const OTHERS: [&str; 5] = [
    "policies",
    "sweep generate --utilisation 3.4 --sets 40 --generator uunifast --tasks 12 --periods log-uniform:10ms..1s",
    "sweep generate --utilisation 3.4 --sets 40 --generator randfixedsum --tasks 12 --deadlines constrained",
    "sweep schedulability --points 3.0,3.6 --sets 4 --test ff,wm_ff,ceqd_ff --svg curves.svg",
    "sweep schedulability --points 2.0 --sets 2 --duration 200ms --test sim:pd2,sim:llref,sim:g-edf",
];

/// Compares the results of the program `own` with those of another one, which `other` starts.
///
/// # Errors
/// When they differ, or too few commands succeed.
pub(crate) fn equal(own: &Path, name: &str, other: impl Fn() -> Command + Sync) -> Result<()> {
    let commands = commands()?;
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (bytes, succeeded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            let results = [Command::new(own), other()].map(|program| result(program, command));
            let why = match results {
                [Ok(here), Ok(there)] if here == there => {
                    bytes.fetch_add(here.1.iter().map(|(_, content)| content.len()).sum(), Ordering::Relaxed);
                    succeeded.fetch_add(usize::from(here.0 == Some(0)), Ordering::Relaxed);
                    continue;
                }
                [Ok(here), Ok(there)] => difference(&here, &there),
                [here, there] => here.err().or(there.err()).map(|error| format!("{error:#}")).unwrap_or_default(),
            };
            let line = format!("takt {}: {why}", command.join(" "));
            differences.lock().expect("no comparison panics").push(line);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let (bytes, succeeded) = (bytes.into_inner(), succeeded.into_inner());
    let differences = differences.into_inner().expect("no comparison panics");
    differences.iter().for_each(|line| println!("{line}"));
    println!("{} commands here and on {name}, {succeeded} with status 0, {bytes} equal bytes", commands.len());
    ensure!(differences.is_empty(), "{} commands have other results on {name}", differences.len());
    // Commands that fail alike would compare nothing.
    ensure!(succeeded * 4 > commands.len() * 3 && bytes > 1_000_000, "too little was compared");
    Ok(())
}

/// The commands whose results are compared.
fn commands() -> Result<Vec<Vec<String>>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let mut commands: Vec<Vec<String>> = OTHERS.into_iter().map(words).collect();
    for folder in ["workloads", "workloads/features"] {
        for entry in fs::read_dir(root().join(folder)).with_context(|| folder.to_owned())? {
            let file = entry?.path();
            if file.extension().is_some_and(|e| e == "yaml") {
                let file = file.to_string_lossy().into_owned();
                let ending = ["jsonl", "csv", "pftrace"][commands.len() % 3];
                let simulated =
                    ["sim", &file, "--seed", "7", "--json", "--trace", &format!("t.{ending}"), "--jobs", "j.csv"];
                commands.push(simulated.map(str::to_owned).to_vec());
                if folder == "workloads" {
                    commands.push(["check", &file, "--json"].map(str::to_owned).to_vec());
                }
            }
        }
    }
    commands.sort();
    Ok(commands)
}

/// Exit status, and the bytes of standard output, standard error and all files that were written, by name.
type Done = (Option<i32>, Vec<(String, Vec<u8>)>);

fn result(mut program: Command, arguments: &[String]) -> Result<Done> {
    let directory = tempfile::tempdir()?;
    let output = program.args(arguments).current_dir(directory.path()).stdin(Stdio::null()).output()?;
    let Output { status, stdout, stderr } = output;
    let mut contents = vec![("standard output".to_owned(), stdout), ("standard error".to_owned(), stderr)];
    let mut open = vec![directory.path().to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(directory.path())?.to_string_lossy().into_owned();
            contents.push((name, fs::read(&path)?));
        }
    }
    contents.sort();
    Ok((status.code(), contents))
}

/// The first difference.
fn difference(here: &Done, there: &Done) -> String {
    if here.0 != there.0 {
        return format!("status {:?} here, {:?} there", here.0, there.0);
    }
    for ((name, one), (other_name, other)) in here.1.iter().zip(&there.1) {
        if (name, one) != (other_name, other) {
            let at = one.iter().zip(other).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
            let part = |text: &[u8]| {
                String::from_utf8_lossy(&text[at.saturating_sub(30)..text.len().min(at + 50)]).into_owned()
            };
            return format!("{name} at byte {at}: {:?} here, {:?} there", part(one), part(other));
        }
    }
    "not the same files".into()
}
