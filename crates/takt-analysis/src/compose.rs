//! Verdicts that are put together from those of parts: domain by domain, and of a load at its extremes. `judge` gives the verdict of a
//! part, whose tasks are placed as those of its second system.

use crate::bands;
use crate::idle;
use crate::parts::{at_load, extremes};
use crate::verdict::{Answer, Kind, Verdict};
use takt_core::model::{Load, PolicySpec, System};

/// The verdict under a load: jobs need less than at its highest, so where that is too much nothing is shown, unless the lowest is
/// more than the CPUs can do. `policies` schedule the part.
pub(crate) fn loaded<'a>(
    system: &System,
    load: &Load,
    mut policies: impl Iterator<Item = &'a PolicySpec>,
    judge: impl Fn(&System, &System) -> Verdict,
) -> Verdict {
    let (lowest, highest) = extremes(load);
    // Placements go by what is declared, whatever the load.
    let at = |factor| judge(&at_load(system, factor), system);
    let high = at(highest);
    if lowest == highest {
        return high;
    }
    let factor = |f: u32| format!("{}.{:03}", f / Load::ONE, f % Load::ONE / 1000);
    let without = vec![None; high.responses.len()];
    let varies = policies.any(PolicySpec::is_optimal) && high.test != "no-deadlines";
    let (schedulable, kind) = match high.schedulable {
        Answer::Yes if varies => {
            let reason = "the guarantee of this policy needs a load that does not change".to_owned();
            let (schedulable, kind) = (Answer::Unknown, Kind::Nothing);
            return Verdict { schedulable, test: "none", kind, reason, responses: without, ..high };
        }
        Answer::Yes if high.kind == Kind::Exact => (Answer::Yes, Kind::Sufficient),
        Answer::No => {
            let low = at(lowest);
            if low.schedulable == Answer::No && low.kind == Kind::Necessary {
                return Verdict { responses: without, ..low };
            }
            (Answer::Unknown, high.kind.weakened())
        }
        answer => (answer, high.kind),
    };
    let reason = format!("{}, at the highest load of {}", high.reason, factor(highest));
    let responses = if schedulable == Answer::Yes { high.responses } else { without };
    Verdict { schedulable, kind, reason, responses, ..high }
}

/// The verdict of a system with domains: that of the worst of them.
pub(crate) fn together(
    system: &System,
    declared: &System,
    whole: Verdict,
    judge: impl Fn(&System, &System) -> Verdict,
) -> Verdict {
    let parts: Vec<Verdict> =
        (0..system.domains.len()).map(|index| bands::judge(system, declared, index, &judge)).collect();
    let idle_10_percent = parts.iter().all(|p| p.idle_10_percent) && idle::of_bands(system, declared).is_none();
    let mut responses = vec![None; system.tasks.len()];
    for part in &parts {
        responses.iter_mut().zip(&part.responses).for_each(|(mine, bound)| *mine = mine.or(*bound));
    }
    let all = Verdict { responses, idle_10_percent, ..whole };
    let worst = |answer: Answer| parts.iter().position(|part| part.schedulable == answer);
    match worst(Answer::No).or_else(|| worst(Answer::Unknown)) {
        Some(index) => {
            let Verdict { schedulable, test, kind, reason, .. } = parts[index].clone();
            Verdict { schedulable, test, kind, reason: format!("in the domain at index {index}: {reason}"), ..all }
        }
        None => {
            let exact = parts.iter().all(|part| part.kind == Kind::Exact);
            let kind = if exact { Kind::Exact } else { Kind::Sufficient };
            let mut tests = parts.iter().map(|part| part.test);
            let first = tests.next().unwrap_or("none");
            let test = if tests.all(|test| test == first) { first } else { "domains" };
            let reason = "the tests say yes in every domain".to_owned();
            Verdict { schedulable: Answer::Yes, test, kind, reason, ..all }
        }
    }
}
