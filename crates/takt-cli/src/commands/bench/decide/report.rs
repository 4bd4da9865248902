//! The output of `takt bench decide`: tables for people, an object for programs.

use super::super::figures::{cell, median, ratio};
use super::super::lab::Session;
use super::cell::{Cell, Measured};
use serde_json::{Value, json};
use std::io::{self, Write};
use takt::report::{Cell as Shown, table};
use takt_workload::policy_text;

pub(super) struct Results<'a> {
    /// The reference first.
    pub(super) all: &'a [Measured],
    pub(super) sizes: &'a [usize],
    /// In hundredths.
    pub(super) loads: &'a [u32],
    pub(super) at: u16,
    pub(super) cpus: u16,
    pub(super) chain: u16,
    pub(super) session: &'a Session,
}

/// A cost must not grow faster than its policy states.
pub(super) struct Limit {
    pub(super) what: String,
    measured: Option<f64>,
    stated: Option<Stated>,
    pub(super) holds: Option<bool>,
}

/// How the cost of a decision grows, as a manual page has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stated {
    pub(super) text: String,
    /// The power of the number of jobs.
    pub(super) power: u32,
}

/// By how much a fitted exponent may be above the stated power: logarithms, and caches that become too small.
const TOLERANCE: f64 = 0.35;

/// The highest power of the number of jobs in the paragraph **Cost** of a manual page. Where jobs wait in chains, their length `d` may
/// be the number of jobs.
pub(super) fn stated(manual: &str, chained: bool) -> Option<Stated> {
    let paragraph = manual.split("**Cost.**").nth(1)?.split("\n\n").next()?;
    let terms = paragraph.split("O(").skip(1).filter_map(|rest| rest.split(')').next());
    let power = |term: &str| {
        let words = || term.split(|c: char| !c.is_alphanumeric());
        let word = |word| match word {
            "n³" => 3,
            "n²" => 2,
            "n" | "jobs" | "tasks" => 1,
            _ => 0,
        };
        words().map(word).max().unwrap_or(0) + u32::from(chained && words().any(|word| word == "d"))
    };
    // The first of the highest ones: it is what the paragraph begins with.
    let terms: Vec<Stated> =
        terms.map(|t| Stated { text: format!("O({})", t.replace('\n', " ")), power: power(t) }).collect();
    let highest = terms.iter().map(|t| t.power).max()?;
    terms.into_iter().find(|t| t.power == highest)
}

/// The slope of a straight line through the logarithms of the upper half of the points, by least squares; `None` for fewer than
/// two of these.
pub(super) fn exponent(points: &[(usize, i64)]) -> Option<f64> {
    let upper = &points[points.len() / 2..];
    let logarithms = || upper.iter().map(|&(n, cost)| ((n as f64).ln(), (cost.max(1) as f64).ln()));
    let count = upper.len() as f64;
    let (x, y) = logarithms().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / count, y + b / count));
    let (up, across) = logarithms().fold((0.0, 0.0), |(u, v), (a, b)| (u + (a - x) * (b - y), v + (a - x) * (a - x)));
    (across > 0.0).then(|| up / across)
}

/// The largest distance of a round from the median, as a part of it in percent.
fn spread(rounds: &[i64]) -> i64 {
    let middle = median(rounds.iter().copied()).max(1);
    rounds.iter().map(|r| (r - middle).abs() * 100 / middle).max().unwrap_or(0)
}

fn hundredths(load: u32) -> String {
    format!("{}.{:02}", load / 100, load % 100)
}

impl Measured {
    fn name(&self) -> String {
        policy_text(&self.policy)
    }
    fn cpus(&self) -> usize {
        self.loads.first().or(self.jobs.first()).map_or(1, |cell| cell.situation.cpus)
    }
    fn exponent(&self) -> Option<f64> {
        let points: Vec<_> = self.jobs.iter().map(|cell| (cell.situation.jobs, cell.cost())).collect();
        exponent(&points)
    }
    fn stated(&self) -> Option<Stated> {
        let chained = self.loads.iter().chain(&self.jobs).any(|cell| cell.situation.chain > 1);
        let entry = takt_workload::registry().entry(self.policy.profile.name)?;
        stated(entry.manual, chained)
    }
}

impl Cell {
    /// How many times as much as the reference, round by round: what disturbs a round disturbs both.
    fn ratio(&self, reference: &Cell) -> i64 {
        let parts = self.rounds.iter().zip(&reference.rounds).map(|(own, other)| own * 1000 / (*other).max(1));
        median(parts)
    }
    fn json(&self, reference: Option<&Cell>) -> Value {
        let mut cell = json!({
            "jobs": self.situation.jobs, "load": f64::from(self.situation.load) / 100.0,
            "decision_ps": self.cost(), "rounds_ps": self.rounds, "spread_percent": spread(&self.rounds),
            "ratio": reference.map(|r| self.ratio(r) as f64 / 1000.0),
        });
        if let Some(instructions) = &self.instructions {
            cell["instructions"] = instructions.as_ref().ok().copied().into();
        }
        cell
    }
}

impl Results<'_> {
    pub(super) fn limits(&self) -> Vec<Limit> {
        let limit = |m: &Measured| {
            let (measured, stated) = (m.exponent(), m.stated());
            let within = measured.zip(stated.as_ref()).map(|(e, s)| e <= f64::from(s.power) + TOLERANCE);
            Limit {
                what: format!("{}, growth with jobs", m.name()),
                measured,
                stated,
                holds: within.filter(|_| !self.session.quick),
            }
        };
        self.all.iter().map(limit).collect()
    }

    /// Why there are no instructions, if there are none even of the reference. Others may have too many to count them.
    fn uncounted(&self) -> Option<&str> {
        let mut cells = self.all[0].loads.iter();
        cells.find_map(|c| c.instructions.as_ref()?.as_ref().err()).map(String::as_str)
    }

    pub(super) fn json(&self) -> Value {
        let reference = &self.all[0];
        let each = |m: &Measured| {
            let peer = |jobs: usize| reference.jobs.iter().find(|c| c.situation.jobs == jobs);
            let stated = m.stated();
            json!({
                "policy": m.name(), "cpus": m.cpus(), "exponent": m.exponent(),
                "stated": stated.as_ref().map(|s| s.text.as_str()), "stated_exponent": stated.as_ref().map(|s| s.power),
                "jobs": m.jobs.iter().map(|c| c.json(peer(c.situation.jobs))).collect::<Vec<_>>(),
                "loads": m.loads.iter().zip(&reference.loads).map(|(c, peer)| c.json(Some(peer))).collect::<Vec<_>>(),
            })
        };
        let limit = |l: &Limit| {
            json!({"what": l.what, "measured": l.measured, "limit": l.stated.as_ref().map(|s| s.text.as_str()),
                   "holds": l.holds})
        };
        self.session.json(json!({
            "optimized": !cfg!(debug_assertions),
            "cpus": self.cpus, "chain": self.chain, "reference": reference.name(),
            "instructions": self.uncounted().map_or("counted".into(), |why| format!("not available: {why}")),
            "results": {"policies": self.all.iter().map(each).collect::<Vec<_>>()},
            "limits": self.limits().iter().map(limit).collect::<Vec<_>>(),
        }))
    }

    pub(super) fn show(&self, out: &mut impl Write) -> io::Result<()> {
        let what = "; CPU time of one decision, the mean of a release and a completion";
        let [title, machine] = self.session.heading(what);
        writeln!(out, "{title}")?;
        if cfg!(debug_assertions) {
            writeln!(out, "this build is not optimized: costs are those of no real use")?;
        }
        writeln!(out, "{machine}")?;
        if self.chain > 1 {
            writeln!(out, "jobs wait for each other in chains of {}", self.chain)?;
        }
        self.by_jobs(out)?;
        writeln!(out, "\n{} jobs, by load; ratios are to {}", self.at, self.all[0].name())?;
        self.by_load(out, |c, peer| [cell(c.cost() / 1000), ratio(c.ratio(peer), 1000).into()])?;
        match self.uncounted() {
            Some(why) => writeln!(out, "\ninstructions of a decision cannot be counted here: {why}")?,
            None => {
                writeln!(out, "\n{} jobs, by load: instructions of a decision, counted one by one", self.at)?;
                let number = |cell: &Cell| cell.instructions.as_ref()?.as_ref().ok().copied();
                self.by_load(out, |c, peer| match number(c) {
                    Some(count) => {
                        [count.to_string(), ratio(count as i64, number(peer).unwrap_or(0) as i64)].map(Shown::from)
                    }
                    None => ["-"; 2].map(Shown::from),
                })?;
            }
        }
        self.in_short(out)
    }

    fn highest(&self) -> String {
        hundredths(self.loads.last().copied().unwrap_or(0))
    }

    fn by_jobs(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nby number of jobs, load {}; `grows` is the exponent in the upper half", self.highest())?;
        let mut head = vec![Shown::from("policy"), "CPUs".into()];
        head.extend(self.sizes.iter().map(|n| Shown::from(n.to_string())));
        head.extend(["grows", "stated", "spread"].map(Shown::from));
        let row = |m: &Measured| {
            let mut row = vec![Shown::from(m.name()), m.cpus().to_string().into()];
            let cost = |n: &usize| m.jobs.iter().find(|c| c.situation.jobs == *n).map(Cell::cost);
            row.extend(self.sizes.iter().map(|n| cost(n).map_or("-".into(), |ps| cell(ps / 1000))));
            row.push(m.exponent().map_or("-".into(), |e| format!("{e:.2}").into()));
            row.push(m.stated().map_or("-".into(), |s| s.text.into()));
            row.push(format!("{} %", m.jobs.iter().map(|c| spread(&c.rounds)).max().unwrap_or(0)).into());
            row
        };
        table(out, &std::iter::once(head).chain(self.all.iter().map(row)).collect::<Vec<_>>())
    }

    /// A table with two columns for each load, of what a policy and the reference did at it.
    fn by_load(&self, out: &mut impl Write, columns: impl Fn(&Cell, &Cell) -> [Shown; 2]) -> io::Result<()> {
        let loads = self.loads.iter().flat_map(|l| [format!("load {}", hundredths(*l)).into(), "ratio".into()]);
        let head = ["policy", "CPUs"].map(Shown::from).into_iter().chain(loads).collect();
        let row = |m: &Measured| {
            let cells = m.loads.iter().zip(&self.all[0].loads).flat_map(|(c, peer)| columns(c, peer));
            [m.name(), m.cpus().to_string()].map(Shown::from).into_iter().chain(cells).collect()
        };
        table(out, &std::iter::once(head).chain(self.all.iter().map(row)).collect::<Vec<Vec<Shown>>>())
    }

    /// The ratios of all that decide for several CPUs, and whether costs grow as stated.
    fn in_short(&self, out: &mut impl Write) -> io::Result<()> {
        let (reference, others) = (&self.all[0], self.all[1..].iter().filter(|m| m.cpus() > 1));
        let ratios = others.filter_map(|m| {
            let (own, peer) = (m.loads.last()?, reference.loads.last()?);
            Some(format!("{} {}", m.name(), ratio(own.ratio(peer), 1000)))
        });
        writeln!(
            out,
            "\n{} jobs on {} CPUs at load {}, against {}: {}",
            self.at,
            self.cpus,
            self.highest(),
            reference.name(),
            ratios.collect::<Vec<_>>().join(", ")
        )?;
        let limits = self.limits();
        let over: Vec<&Limit> = limits.iter().filter(|l| l.holds == Some(false)).collect();
        let judged = limits.iter().filter(|l| l.holds.is_some()).count();
        if judged == 0 {
            writeln!(out, "growth is not compared with what is stated: too few sizes were measured")?;
        } else {
            writeln!(out, "growth within what is stated (and {TOLERANCE}): {} of {judged}", judged - over.len())?;
        }
        for limit in over {
            let stated = limit.stated.as_ref().map_or("-", |s| s.text.as_str());
            writeln!(out, "{}: {:.2}, stated {stated}: OVER", limit.what, limit.measured.unwrap_or(0.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::model::Scope;
    use takt_core::registry::REGISTRY;

    #[test]
    fn the_stated_power_is_the_highest_of_the_paragraph() {
        let power =
            |cost: &str| stated(&format!("What.\n\n**Cost.** {cost}\n\n**Source.** O(n³)."), false).map(|s| s.power);
        assert_eq!(power("O(n²) per event for n jobs."), Some(2));
        assert_eq!(power("O(ready jobs) per release, O(m) per decision."), Some(1));
        assert_eq!(power("O(m n³) at worst, O(n log n) mostly."), Some(3));
        assert_eq!(power("O(n² + n m²)."), Some(2));
        assert_eq!((power("O(1)."), power("Little.")), (Some(0), None));
        let first = stated("**Cost.** O(n log n) per decision for n tasks, and O(tasks) else.", false).unwrap();
        assert_eq!(first, Stated { text: "O(n log n)".into(), power: 1 });
        let chains = "**Cost.** O(n log n), and O(n d) with chains of d.";
        assert_eq!([false, true].map(|chained| stated(chains, chained).unwrap().power), [1, 2]);
    }

    #[test]
    fn every_policy_states_its_cost() {
        for entry in REGISTRY.iter().filter(|e| !e.profile.scopes.contains(&Scope::Table)) {
            assert!(stated(entry.manual, false).is_some(), "{}", entry.profile.name);
        }
        let power =
            |name: &str| stated(REGISTRY.iter().find(|e| e.profile.name == name).unwrap().manual, false).unwrap().power;
        assert_eq!((power("edf"), power("llf"), power("dasa-nd")), (1, 1, 2));
    }

    #[test]
    fn exponents_are_those_of_powers() {
        let sizes = [4usize, 8, 16, 32, 64];
        for power in 0..=3u32 {
            let points: Vec<_> = sizes.iter().map(|n| (*n, 7 * n.pow(power) as i64)).collect();
            assert!((exponent(&points).unwrap() - f64::from(power)).abs() < 1e-9);
        }
        // A constant at the beginning does not count.
        let points: Vec<_> = sizes.iter().map(|n| (*n, if *n < 16 { 1 } else { (n * n) as i64 })).collect();
        assert!((exponent(&points).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!((exponent(&[(4, 9)]), exponent(&[])), (None, None));
        assert_eq!(spread(&[100, 90, 115]), 15);
    }
}
