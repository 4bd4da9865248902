//! Simulates a task set under a policy and prints how many jobs completed. Response times are kept as `takt sim` keeps them.
//!
//! Usage: `instructions FILE POLICY CPUS SECONDS`. The file is CSV with the columns of `takt-sim`'s test data: set, task, runtime, relative deadline and
//! period, in microseconds.

use std::process::ExitCode;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, System, Task};
use takt_core::policy::Registry;
use takt_core::scenario::Scenario;
use takt_core::stats::Responses;
use takt_core::time::Span;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match simulated(&arguments) {
        Ok(jobs) => {
            println!("{jobs}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn simulated(arguments: &[String]) -> Result<u64, String> {
    let [file, policy, cpus, seconds] = arguments else { return Err("usage: FILE POLICY CPUS SECONDS".to_owned()) };
    let number = |text: &str| text.trim().parse::<i64>().map_err(|why| format!("{text}: {why}"));
    let policy = Registry::standard().spec(policy).ok_or_else(|| format!("{policy}: no such policy"))?;
    let cpus = CpuSet::first(number(cpus)? as usize);
    let mut system = System::new(cpus, policy);
    let text = std::fs::read_to_string(file).map_err(|why| format!("{file}: {why}"))?;
    for line in text.lines().skip(1) {
        let columns = line.split(',').map(number).collect::<Result<Vec<i64>, String>>()?;
        let &[_, _, runtime, deadline, period] = &*columns else { return Err(format!("{line}: not five columns")) };
        system.tasks.push(Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_us(period) },
            deadline: Some(Span::from_us(deadline)),
            runtime: Some(Span::from_us(runtime)),
            affinity: cpus,
            ..Task::default()
        });
    }
    let mut responses = Responses::new(system.tasks.len());
    let mut engine = Engine::new(system).map_err(|why| why.to_string())?;
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_secs(number(seconds)?), &mut responses, |_| ());
    Ok(engine.totals().completed)
}
