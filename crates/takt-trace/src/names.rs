//! The words by which text formats call things.

use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{Completion, Hosts, Kind, PolicySpec, Setting};
use takt_core::policy::Registry;
use takt_core::record::{Outcome, StopReason};
use takt_core::time::Span;

/// How an exit says that the program failed.
pub(crate) const FAILED: &str = "failed";

const REASONS: [(StopReason, &str); 5] = [
    (StopReason::Preempted, "preempted"),
    (StopReason::Suspended, "suspended"),
    (StopReason::Migrated, "migrated"),
    (StopReason::Finished, "finished"),
    (StopReason::Blocked, "blocked"),
];

const OUTCOMES: [(Outcome, &str); 6] = [
    (Outcome::Completed, "completed"),
    (Outcome::BudgetUsed, "budget_used"),
    (Outcome::Overrun, "overrun"),
    (Outcome::Aborted, "aborted"),
    (Outcome::Exited, "exited"),
    (Outcome::Skipped, "skipped"),
];

const COMPLETIONS: [(Completion, &str); 4] = [
    (Completion::Undeclared, "undeclared"),
    (Completion::Signal, "signal"),
    (Completion::Exit, "exit"),
    (Completion::None, "none"),
];

/// Reports whether a chart shows another character in the place of this one: a control character, or one that changes a text and
/// has no width of its own.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn name_of<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(v, _)| v == value).map_or("", |(_, name)| name)
}
fn value_of<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table.iter().find(|(_, n)| *n == name).map(|(v, _)| *v)
}

pub(crate) fn reason(reason: StopReason) -> &'static str {
    name_of(&REASONS, &reason)
}
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    name_of(&OUTCOMES, &outcome)
}
pub(crate) fn completion(completion: Completion) -> &'static str {
    name_of(&COMPLETIONS, &completion)
}
pub(crate) fn completion_from(name: &str) -> Option<Completion> {
    value_of(&COMPLETIONS, name)
}
pub(crate) fn reason_from(name: &str) -> Option<StopReason> {
    value_of(&REASONS, name)
}
pub(crate) fn outcome_from(name: &str) -> Option<Outcome> {
    value_of(&OUTCOMES, name)
}

/// The policy of this scope as the command line takes it; a policy that is not in the registry keeps its name.
pub(crate) fn policy(name: &str, scope: &str) -> String {
    let whole = |(prefix, plain): (&str, &str)| (plain == name).then(|| format!("{prefix}{plain}"));
    let of_scope = |whole: &String| PolicySpec::from_name(whole).is_some_and(|p| p.scope.name() == scope);
    Registry::standard().names().filter_map(whole).find(of_scope).unwrap_or_else(|| name.into())
}

/// The kind of hosting of the policy of this plain name; `None` for a policy that hosts none, or is not in the registry.
pub(crate) fn hosts(name: &str) -> Option<Hosts> {
    Registry::standard().spec(name)?.hosts()
}

/// A setting's value as the command line takes it.
pub(crate) fn setting(setting: &Setting, value: i64) -> String {
    match setting.kind {
        Kind::Duration(..) => Span::from_ns(value).to_string(),
        Kind::Ratio(..) => {
            let sign = if value < 0 { "-" } else { "" };
            let (whole, rest) = (value.unsigned_abs() / 1_000_000, value.unsigned_abs() % 1_000_000);
            let text = format!("{sign}{whole}.{rest:06}");
            text.trim_end_matches('0').trim_end_matches('.').into()
        }
        Kind::Count(..) => value.to_string(),
        Kind::Choice(words) => usize::try_from(value).ok().and_then(|v| words.get(v)).copied().unwrap_or("").into(),
    }
}

/// Reads the kernel's list form, `0,2,5-7`.
pub(crate) fn cpus_from(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::EMPTY;
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        (first..=last).for_each(|cpu| set.insert(cpu));
    }
    Some(set)
}

/// `CPU 2` or `CPUs 0-3`.
pub(crate) fn cpus_title(set: &CpuSet) -> String {
    if set.len() == 1 { format!("CPU {set}") } else { format!("CPUs {set}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_names_that_the_command_line_takes() {
        for (name, scope, whole) in [
            ("edf", "uniprocessor", "edf"),
            ("edf", "global", "g-edf"),
            ("rm", "partitioned", "p-rm"),
            ("g-gua", "global", "g-gua"),
            ("g-gua", "clustered", "c-g-gua"),
            ("unheard-of", "global", "unheard-of"),
        ] {
            assert_eq!(policy(name, scope), whole);
        }
    }

    #[test]
    fn values_are_those_of_the_command_line() {
        let of = |kind, value| setting(&Setting { name: "x", kind, default: "", summary: "" }, value);
        let ratio = Kind::Ratio(-2_000_000, 2_000_000);
        assert_eq!(of(ratio, 1_500_000), "1.5");
        assert_eq!(of(ratio, -10), "-0.00001");
        assert_eq!(of(ratio, 0), "0");
        assert_eq!(of(Kind::Duration(Span::ZERO, Span::MAX), 2_000_000), "2ms");
        assert_eq!(of(Kind::Count(0, 20), 10), "10");
        assert_eq!(of(Kind::Choice(&["soft", "hard"]), 1), "hard");
    }

    #[test]
    fn cpu_lists_are_read_as_they_are_printed() {
        for text in ["", "0", "0,2,5-7", "1023", "63-64"] {
            assert_eq!(cpus_from(text).map(|s| s.to_string()).as_deref(), Some(text));
        }
        for wrong in ["a", "3-1", "1024", "1-", "-"] {
            assert_eq!(cpus_from(wrong), None, "{wrong}");
        }
    }
}
