//! Takt in a program: it loads a workload, checks it, simulates it under two policies, and draws both schedules.
//!
//! ```text
//! embed WORKLOAD.yaml POLICY POLICY FOLDER
//! ```

use std::path::Path;
use std::process::ExitCode;
use takt::{Answer, Error, LoadOptions, SimulateOptions, SvgOptions};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, first, second, folder] = &arguments[..] else {
        eprintln!("usage: embed WORKLOAD.yaml POLICY POLICY FOLDER");
        return ExitCode::from(2);
    };
    match compare(file, [first, second], Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Workload(faults)) => {
            for fault in faults.diagnostics() {
                eprintln!("{file}:{}:{}: {} [{}]", fault.line, fault.column, fault.message, fault.code);
            }
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Compares two policies about one workload.
fn compare(file: &str, policies: [&str; 2], folder: &Path) -> Result<(), Error> {
    let workload = takt::load(file, &LoadOptions::default())?;
    let check = takt::check(&workload)?;
    let answer = match check.answer() {
        Answer::Yes => "schedulable",
        Answer::No => "not schedulable",
        Answer::Unknown => "not known to be schedulable",
    };
    println!("{file}: {} tasks, {answer} under its own policy", workload.tasks.len());
    for policy in policies {
        let options = SimulateOptions { policy: Some(takt::policy(policy)?), trace: true, ..Default::default() };
        let simulation = takt::simulate(&workload, &options)?;
        let result = simulation.result();
        println!("{policy}: {}", serde_json::to_string(&result.totals.jobs).unwrap_or_default());
        let longest = |task: &takt::TaskResult| {
            let longest = task.counts.response_ns?.max;
            Some(format!("{} {longest} ns", task.counts.name))
        };
        let longest: Vec<String> = result.tasks.iter().filter_map(longest).collect();
        println!("  longest response times: {}", longest.join(", "));
        let chart = simulation.gantt(&SvgOptions::default()).unwrap_or_default();
        let path = folder.join(format!("{policy}.svg"));
        std::fs::write(&path, chart).map_err(|error| takt::error::unwritable(&path, &error))?;
    }
    Ok(())
}
