//! `takt bench decide`: what one decision of a policy costs, by the number of jobs that are there and by load.

mod cell;
mod report;
mod scene;

use super::lab::Session;
use super::options::{Form, Rounds};
use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use cell::{Cell, Measured};
use report::Results;
use scene::Situation;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use takt_core::model::{PolicySpec, Scope};
use takt_core::policy::Entry;
use takt_core::time::Span;
use takt_linux::count;
use takt_workload::{Code, policy_from_text, policy_text};

/// Measure the cost of one decision: CPU time and instructions, by number of jobs and by load, as a ratio to g-edf
///
/// The bench drives the engine directly. The release of a job that is more urgent than all others is one decision, its completion the
/// next. The other jobs do not change. The exponent by which the cost grows with the number of jobs is printed beside that of the
/// policy's manual page.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Policies with their settings; by default all that decide at releases and completions, in their global form if they have one
    #[arg(long, value_name = "P[,P…]")]
    policies: Vec<String>,
    /// Numbers of jobs
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "4,8,16,32,64,128,256,512,1024",
          value_parser = clap::value_parser!(u16).range(2..=10_000))]
    jobs: Vec<u16>,
    /// CPUs, for policies that can have several
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: u16,
    /// Loads; at load 1, deadline order just meets all deadlines. Numbers of jobs are measured at the last load
    #[arg(long, value_name = "L", value_delimiter = ',', default_value = "0.5,0.8,1.2,2", value_parser = hundredths)]
    load: Vec<u32>,
    /// Number of jobs at which loads are compared
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    at: u16,
    /// Length of dependency chains: each job waits for a resource that the job before it holds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    chain: u16,
    /// Longest decision: above it, the policy is not measured with more jobs
    #[arg(long, value_name = "D", value_parser = duration, default_value = "10ms")]
    most: Span,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    form: Form,
}

/// The baseline of all comparisons.
const REFERENCE: &str = "g-edf";
/// CPU time of one measurement.
const LEAST: Span = Span::from_ms(20);
const LEAST_QUICK: Span = Span::from_us(200);
/// Beyond this counting takes minutes.
const MOST_INSTRUCTIONS: u64 = 2_000_000;

/// A load in hundredths.
fn hundredths(text: &str) -> Result<u32, String> {
    let wrong = || "a load is a number above zero with at most two decimals".to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || whole.len() > 4 || decimals.len() > 2 {
        return Err(wrong());
    }
    let number = |t: &str| t.parse::<u32>().map_err(|_| wrong());
    let load = number(whole)? * 100 + number(&format!("{decimals:0<2}"))?;
    if load > 0 { Ok(load) } else { Err(wrong()) }
}

/// The policies that are measured, the reference first.
fn policies(args: &Args) -> Result<Vec<PolicySpec>, Failure> {
    let mut policies = vec![PolicySpec::from_name(REFERENCE).expect("EDF has a global form")];
    let mut push = |policy| {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    };
    for text in args.policies.iter().flat_map(|list| super::hartstone::split(list)) {
        let policy =
            policy_from_text(&text).map_err(|e| Failure::input(e.code, &e, "`takt policies` lists all of them"))?;
        if policy.scope == Scope::Table {
            let hint = "name the policies that they host";
            return Err(Failure::input(
                Code::UnsuitablePolicy,
                format!("`{text}` hosts other policies and decides nothing itself"),
                hint,
            ));
        }
        push(policy);
    }
    if args.policies.is_empty() {
        for Entry { profile, .. } in takt_workload::registry().entries() {
            let global = profile.scopes.contains(&Scope::Global);
            let policy = PolicySpec::new(profile, if global { Scope::Global } else { profile.plain_scope() });
            // A measurement of releases and completions says nothing about other instants.
            if policy.hosts().is_none() && !policy.is_time_driven() {
                push(policy);
            }
        }
    }
    Ok(policies)
}

pub(super) fn run(args: &Args) -> Outcome {
    let session = Session::begin("decide", args.rounds.count(&args.form), args.form.quick);
    let least = if args.form.quick { LEAST_QUICK } else { LEAST };
    let mut sizes: Vec<usize> = args.jobs.iter().map(|n| usize::from(*n)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let situation =
        |jobs: usize, load: u32| Situation { jobs, cpus: usize::from(args.cpus), load, chain: usize::from(args.chain) };
    let highest = *args.load.last().expect("clap knows a default");
    let mut all = Vec::new();
    for policy in policies(args)? {
        let loads = args.load.iter().map(|load| Cell::new(policy, situation(args.at.into(), *load)));
        all.push(Measured { policy, jobs: vec![], loads: loads.collect::<Result<_, _>>()? });
    }
    // Policies take turns within each situation, so that what disturbs one disturbs the others, too.
    for round in 1..=session.rounds {
        for which in 0..args.load.len() {
            session.round(round, &format!("load {} of {}", which + 1, args.load.len()));
            all.iter_mut().for_each(|m| m.loads[which].measure(least));
        }
    }
    for &jobs in &sizes {
        for m in &mut all {
            if m.jobs.last().is_none_or(|last| last.cost() <= args.most.ns() * 1000) {
                m.jobs.push(Cell::new(m.policy, situation(jobs, highest))?);
            }
        }
        for round in 1..=session.rounds {
            session.round(round, &format!("{jobs} jobs"));
            let there = |m: &&mut Measured| m.jobs.last().is_some_and(|cell| cell.situation.jobs == jobs);
            for m in all.iter_mut().filter(there) {
                m.jobs.last_mut().expect("it is there").measure(least);
            }
        }
    }
    for m in &mut all {
        for cell in &mut m.loads {
            session.progress(&format!("counting instructions of {}", policy_text(&m.policy)));
            cell.instructions = Some(instructions(&m.policy, &cell.situation));
        }
    }
    let results = Results {
        all: &all,
        sizes: &sizes,
        loads: &args.load,
        at: args.at,
        cpus: args.cpus,
        chain: args.chain,
        session: &session,
    };
    let mut out = io::stdout().lock();
    if args.form.json {
        writeln!(out, "{}", results.json())?;
    } else {
        results.show(&mut out)?;
    }
    let over = results.limits().iter().any(|limit| limit.holds == Some(false));
    Ok(if args.form.strict && over { Verdict::No } else { Verdict::Done })
}

/// The hidden subcommand that [`instructions`] observes: makes its decisions between marks.
#[derive(clap::Args, Debug)]
pub(crate) struct Observed {
    policy: String,
    jobs: usize,
    cpus: usize,
    load: u32,
    chain: usize,
}

impl Observed {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let policy = policy_from_text(&self.policy).map_err(|e| Failure::input(e.code, &e, "internal"))?;
        let &Observed { jobs, cpus, load, chain, .. } = self;
        let Cell { mut scene, .. } = Cell::new(policy, Situation { jobs, cpus, load, chain })?;
        // The first visits allocate, or touch memory for the first time.
        for _ in 0..3 {
            scene.visit();
        }
        count::mark();
        count::mark();
        scene.visit();
        count::mark();
        Ok(())
    }
}

/// Instructions of one decision, counted by single steps in a process of its own: the mean of the visitor's coming and going.
fn instructions(policy: &PolicySpec, situation: &Situation) -> Result<u64, String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let Situation { jobs, cpus, load, chain } = *situation;
    let numbers = [jobs, cpus, load as usize, chain].map(|n| n.to_string());
    let mut command = Command::new(exe);
    command.args(["__probe", "decide", &policy_text(policy)]).args(numbers);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let [nothing, visit] = count::instructions(&mut command, MOST_INSTRUCTIONS).map_err(|e| e.to_string())?;
    Ok(visit.saturating_sub(nothing) / 2)
}

#[cfg(test)]
mod tests {
    use super::scene::Scene;
    use super::*;

    #[test]
    fn loads_are_hundredths() {
        assert_eq!(["0.5", "2", "1.25", "10.05"].map(|t| hundredths(t).unwrap()), [50, 200, 125, 1005]);
        assert!(["0", "0.00", "-1", "1.234", "1.", ".5", "x", "1e3"].iter().all(|t| hundredths(t).is_err()));
    }

    #[test]
    fn the_visitor_is_served_and_the_others_stay() {
        for chain in [1, 3] {
            for (name, cpus) in [("g-edf", 4), ("edf", 1), ("dasa-nd", 1), ("g-rm", 4), ("g-llf", 4)] {
                let situation = Situation { jobs: 12, cpus, load: 150, chain };
                let mut scene = Scene::new(PolicySpec::from_name(name).unwrap(), situation).unwrap();
                for _ in 0..1000 {
                    assert_eq!(scene.visit(), 2, "{name}");
                    assert_eq!(scene.running(), cpus, "{name}");
                }
                assert_eq!(scene.served(), 1000, "{name} lets the most urgent job wait");
            }
        }
    }

    #[test]
    fn every_policy_that_is_not_left_out_can_be_measured() {
        let args = <Args as clap::Args>::augment_args(clap::Command::new("decide"));
        let args = args.get_matches_from(["decide"]);
        let args = <Args as clap::FromArgMatches>::from_arg_matches(&args).unwrap();
        let policies = policies(&args).unwrap();
        assert!(policies.len() > 8, "{policies:?}");
        for policy in policies {
            for (jobs, load) in [(2, 50), (40, 50), (40, 200)] {
                let mut cell = Cell::new(policy, Situation { jobs, cpus: 4, load, chain: 1 }).unwrap();
                assert!((0..10).all(|_| cell.scene.visit() >= 2));
            }
        }
    }
}
