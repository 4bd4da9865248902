//! Values of the kernel's settings: their forms, and what isolations claim of them.

use crate::control::parse_cpus;
use crate::tracing;
use takt_core::cpus::{CpuSet, MAX_CPUS};

/// How the kernel writes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// CPUs as a list: `0,2-3`.
    List,
    /// CPUs as a mask in groups of 32 bits: `f,0000000d`.
    Mask,
    /// Words, of which the chosen one is in brackets: `always [madvise] never`.
    Choice,
    /// Options, of which that of the workload counts: `OSNOISE_WORKLOAD NO_PANIC_ON_STOP`.
    Workload,
    /// Anything else.
    Plain,
}

impl Form {
    pub(super) const ALL: [(Form, &'static str); 5] = [
        (Form::List, "list"),
        (Form::Mask, "mask"),
        (Form::Choice, "choice"),
        (Form::Workload, "workload"),
        (Form::Plain, "plain"),
    ];

    /// The form of a setting that a run changes at will, by its file.
    pub(super) fn held(path: &str) -> Form {
        if path == tracing::OPTIONS { Form::Workload } else { Form::Plain }
    }

    /// The value in a file's text, in the one form that [`Form::write`] gives, so that equal values are equal texts.
    pub(super) fn value(self, text: &str) -> String {
        let text = text.trim();
        match self {
            Form::List => parse_cpus(text).to_string(),
            Form::Mask => write_mask(&parse_mask(text)),
            Form::Choice => {
                let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                chosen.map_or(text, |(word, _)| word).to_owned()
            }
            Form::Workload => tracing::workload(text).to_owned(),
            Form::Plain => text.to_owned(),
        }
    }
    fn cpus(self, value: &str) -> CpuSet {
        if self == Form::Mask { parse_mask(value) } else { parse_cpus(value) }
    }
    fn of_cpus(self, cpus: &CpuSet) -> String {
        if self == Form::Mask { write_mask(cpus) } else { cpus.to_string() }
    }
}

fn parse_mask(text: &str) -> CpuSet {
    let digits = text.bytes().filter(|byte| *byte != b',').rev();
    let bits = digits.enumerate().flat_map(|(place, digit)| {
        let value = char::from(digit).to_digit(16).unwrap_or(0);
        (0..4).filter(move |bit| value & (1 << bit) != 0).map(move |bit| place * 4 + bit)
    });
    bits.filter(|cpu| *cpu < MAX_CPUS).collect()
}

fn write_mask(cpus: &CpuSet) -> String {
    let mut groups = vec![0u32; cpus.iter().max().unwrap_or(0) / 32 + 1];
    cpus.iter().for_each(|cpu| groups[cpu / 32] |= 1 << (cpu % 32));
    let last = groups.pop().unwrap_or(0);
    groups.iter().rev().fold(format!("{last:x}"), |text, group| format!("{text},{group:08x}"))
}

/// The wish of one isolation for a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// The original CPUs without those of the isolation.
    Without(CpuSet),
    /// This value.
    Value(String),
    /// Values that the owner writes itself, at any time.
    Free,
}

/// The value of a setting: the original one as far as no claim changes it. A value that was claimed last replaces an earlier one. Where claims would
/// leave no CPU, it is all CPUs of the machine that no claim excludes.
pub(super) fn claimed<'c>(
    form: Form,
    original: &str,
    online: &CpuSet,
    claims: impl Iterator<Item = &'c Claim>,
) -> String {
    let (mut value, mut excluded) = (original.to_owned(), CpuSet::EMPTY);
    for claim in claims {
        match claim {
            Claim::Without(cpus) => excluded = excluded.union(cpus),
            Claim::Value(claimed) => claimed.clone_into(&mut value),
            Claim::Free => {}
        }
    }
    if excluded.is_empty() {
        return value;
    }
    let rest = form.cpus(original).difference(&excluded);
    form.of_cpus(&if rest.is_empty() { online.difference(&excluded) } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        parse_cpus(list)
    }

    #[test]
    fn values_are_compared_in_one_form() {
        assert_eq!(Form::Mask.value("00000000,0000000f\n"), "f");
        assert_eq!(Form::Mask.value("1,00000003"), "1,00000003");
        assert_eq!(Form::List.value("0,1,2,5"), "0-2,5");
        assert_eq!(Form::Choice.value("always [madvise] never\n"), "madvise");
        assert_eq!(Form::Choice.value("never"), "never");
        assert_eq!(Form::Workload.value("NO_DEFAULTS NO_OSNOISE_WORKLOAD\n"), "NO_OSNOISE_WORKLOAD");
        assert_eq!(Form::Plain.value(" -1\n"), "-1");
        for list in ["", "0", "1,31-33", "64,1023"] {
            assert_eq!(parse_mask(&write_mask(&cpus(list))), cpus(list), "{list}");
        }
    }

    #[test]
    fn claims_add_up_in_any_order_and_leave_the_original_when_they_are_gone() {
        let online = cpus("0-3");
        let (a, b) = (Claim::Without(cpus("1")), Claim::Without(cpus("2-3")));
        assert_eq!(claimed(Form::List, "0-3", &online, [&a, &b].into_iter()), "0");
        assert_eq!(claimed(Form::List, "0-3", &online, [&b].into_iter()), "0-1");
        assert_eq!(claimed(Form::Mask, "f", &online, [&b, &a].into_iter()), "1");
        assert_eq!(
            claimed(Form::List, "1", &online, [&a].into_iter()),
            "0,2-3",
            "an empty set is refused by the kernel"
        );
        let (one, two) = (Claim::Value("1".into()), Claim::Value("2".into()));
        assert_eq!(claimed(Form::Plain, "0", &online, [&one, &two].into_iter()), "2");
        assert_eq!(claimed(Form::Plain, "0", &online, [].into_iter()), "0");
    }
}
