//! Text of single values: durations, CPU lists, names to choose from.

use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::time::Span;

/// The longest duration that a file may name: a leap year. Sums of a few of them stay far from overflow.
pub const MAX_DURATION: Span = Span::from_secs(366 * 24 * 3600);

pub(crate) const NS_PER_MS: i64 = 1_000_000;

pub(crate) const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", NS_PER_MS),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a plain number could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadNumber {
    NotANumber,
    LeadingZero,
    TooFine,
    TooLarge,
}

/// Reads `-?digits[.digits]` times `unit_ns`, exactly.
pub(crate) fn parse_decimal(text: &str, unit_ns: i64) -> Result<Span, BadNumber> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return Err(BadNumber::NotANumber);
    }
    // YAML 1.1 readers such as DEmOS's take `010` for eight; no author means that.
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(BadNumber::LeadingZero);
    }
    let fraction = fraction.trim_end_matches('0');
    if whole.len() > 19 {
        return Err(BadNumber::TooLarge);
    }
    if fraction.len() > 13 {
        return Err(BadNumber::TooFine);
    }
    let scale = 10_i128.pow(fraction.len() as u32);
    let whole: i128 = whole.parse().map_err(|_| BadNumber::TooLarge)?;
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| BadNumber::TooFine)? };
    let scaled = (whole * scale + part) * i128::from(unit_ns);
    if scaled % scale != 0 {
        return Err(BadNumber::TooFine);
    }
    let ns = i64::try_from(scaled / scale).map_err(|_| BadNumber::TooLarge)?;
    Ok(Span::from_ns(if negative { -ns } else { ns }))
}

/// Reads a number with a unit into a span that may be negative.
pub(crate) fn parse_signed(text: &str) -> Result<Span, String> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..at].trim_end(), &text[at..]);
    let bad = || format!("`{text}` is not a duration: write a number and a unit, as in `10ms`");
    if unit.is_empty() {
        return Err(if parse_decimal(number, 1_000_000_000).is_ok() {
            match number.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
                true => format!("`{text}` has no unit: did you mean `{text}ms`?"),
                false => format!("`{text}` has no unit: write one, as in `10ms`"),
            }
        } else {
            bad()
        });
    }
    if parse_decimal(number, 1_000_000_000) == Err(BadNumber::NotANumber) {
        return Err(bad());
    }
    let Some((_, ns)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{unit}` is not a unit of time: use `ns`, `us`, `ms`, `s`, `min` or `h`"));
    };
    parse_decimal(number, *ns).map_err(|e| number_fault(e, text))
}

pub(crate) fn number_fault(fault: BadNumber, text: &str) -> String {
    match fault {
        BadNumber::NotANumber => format!("`{text}` is not a number"),
        BadNumber::LeadingZero => format!("`{text}` starts with a zero, which some readers take for octal"),
        BadNumber::TooFine => format!("`{text}` is finer than a nanosecond"),
        BadNumber::TooLarge => format!("`{text}` is too long"),
    }
}

/// Reads a duration with a unit: `10ms`, `250us`, `1.5ms`, `2s`, `100ns`, `1min`, `1h`. The value is exact.
///
/// # Errors
/// Why the text is not a duration between zero and [`MAX_DURATION`], in words for the user.
pub fn parse_duration(text: &str) -> Result<Span, String> {
    let span = parse_signed(text)?;
    if span < Span::ZERO {
        return Err(format!("`{}` is negative", text.trim()));
    }
    if span > MAX_DURATION {
        return Err(format!("`{}` is longer than a year", text.trim()));
    }
    Ok(span)
}

/// Writes a span so that [`parse_duration`] reads the same span back.
#[must_use]
pub fn duration_text(span: Span) -> String {
    span.to_string()
}

/// Reads a list of CPUs as the kernel writes it, `0,2,5-7`, with strides as `taskset` has them: `0-7:2` is every second one.
///
/// # Errors
/// Why the text names no CPUs between 0 and 1023, in words for the user.
pub fn parse_cpus(text: &str) -> Result<CpuSet, String> {
    let number = |s: &str| {
        let s = s.trim();
        if s.is_empty() || !s.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("`{s}` is not a CPU number"));
        }
        match s.parse::<usize>() {
            Ok(cpu) if cpu < MAX_CPUS => Ok(cpu),
            _ => Err(format!("CPU {s} is above {}, the highest number", MAX_CPUS - 1)),
        }
    };
    if text.trim().is_empty() {
        return Err("the list of CPUs is empty".to_owned());
    }
    let mut set = CpuSet::EMPTY;
    for part in text.split(',') {
        if part.trim().is_empty() {
            return Err("there is nothing beside a comma".to_owned());
        }
        match part.split_once('-') {
            Some((first, rest)) => {
                let (last, stride) = match rest.split_once(':') {
                    Some((last, stride)) => (last, stride.trim().parse().ok().filter(|n| *n > 0)),
                    None => (rest, Some(1)),
                };
                let stride: usize =
                    stride.ok_or_else(|| format!("the stride of `{}` is not a number above zero", part.trim()))?;
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!("the range {first}-{last} runs backwards"));
                }
                (first..=last).step_by(stride).for_each(|cpu| set.insert(cpu));
            }
            None => set.insert(number(part)?),
        }
    }
    Ok(set)
}

/// DEmOS's default budget of a process, in milliseconds: an even share of the window, or of 0.6 of it, computed in single precision and
/// rounded down. `length` is in milliseconds.
pub(crate) fn demos_budget(length: f32, safety_critical: bool, processes: usize) -> i64 {
    let share = if safety_critical { length * 0.6 } else { length };
    (share / processes as f32) as i64
}

/// Reads YAML 1.1's words for truth, as DEmOS's reader does.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" | "on" => Some(true),
        "n" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// Words of papers and of other tools, without signs between letters, and the names that they mean here.
const MEANT: [(&str, &[&str]); 61] = [
    ("c", &["runtime"]),
    ("wcet", &["runtime"]),
    ("worstcase", &["runtime"]),
    ("worstcaseexecutiontime", &["runtime"]),
    ("e", &["runtime"]),
    ("et", &["runtime"]),
    ("cost", &["runtime"]),
    ("exectime", &["runtime"]),
    ("executiontime", &["runtime"]),
    ("computation", &["runtime"]),
    ("capacity", &["runtime", "budget"]),
    ("bcet", &["execution"]),
    ("t", &["period"]),
    ("interval", &["period"]),
    ("cycle", &["period"]),
    ("mit", &["period"]),
    ("d", &["deadline"]),
    ("dl", &["deadline"]),
    ("relativedeadline", &["deadline"]),
    ("o", &["offset"]),
    ("phi", &["offset"]),
    ("phase", &["offset"]),
    ("phasing", &["offset"]),
    ("start", &["offset"]),
    ("prio", &["priority"]),
    ("nice", &["priority"]),
    ("q", &["budget"]),
    ("value", &["utility"]),
    ("weight", &["importance", "share"]),
    ("command", &["cmd"]),
    ("program", &["cmd"]),
    ("run", &["cmd"]),
    ("stdout", &["output"]),
    ("log", &["output"]),
    ("environment", &["env"]),
    ("workdir", &["cwd"]),
    ("workingdirectory", &["cwd"]),
    ("core", &["cpu"]),
    ("processor", &["cpu"]),
    ("affinity", &["cpu", "cpus"]),
    ("cores", &["cpus"]),
    ("processors", &["cpus"]),
    ("ncpus", &["cpus"]),
    ("scheduler", &["policy"]),
    ("algorithm", &["policy"]),
    ("ratemonotonic", &["rm"]),
    ("deadlinemonotonic", &["dm"]),
    ("fixedpriority", &["fp"]),
    ("fpp", &["fp"]),
    ("earliestdeadlinefirst", &["edf"]),
    ("globaledf", &["g-edf"]),
    ("partitionededf", &["p-edf"]),
    ("clusterededf", &["c-edf"]),
    ("leastlaxityfirst", &["llf"]),
    ("lst", &["llf"]),
    ("leastslacktime", &["llf"]),
    ("roundrobin", &["rr"]),
    ("schedfifo", &["fifo"]),
    ("fcfs", &["fifo"]),
    ("pfair", &["pd2"]),
    ("constantbandwidthserver", &["cbs"]),
];

/// The name nearest to `wrong`: the one that it means in papers and other tools, the one that differs in signs between letters only, or one that is near
/// enough to be a slip of the fingers.
#[must_use]
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A pasted page is no misspelt key, and comparing costs the product of the lengths.
    if wrong.len() > 64 {
        return None;
    }
    let letters = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
    };
    let (bare, wrong) = (letters(wrong), wrong.to_ascii_lowercase());
    let meant: &[&str] = MEANT.iter().find(|(word, _)| *word == bare).map_or(&[], |(_, names)| *names);
    let allowed = 1 + wrong.chars().count() / 4;
    // The smallest of these: a place among the meanings, then equal letters, then a distance.
    let rank = |name: &str| -> Option<(u8, usize)> {
        if let Some(place) = meant.iter().position(|other| *other == name) {
            return Some((0, place));
        }
        if !bare.is_empty() && letters(name) == bare {
            return Some((1, 0));
        }
        let distance = strsim::damerau_levenshtein(&wrong, &name.to_ascii_lowercase());
        (distance <= allowed && distance < name.len()).then_some((2, distance))
    };
    names.into_iter().filter_map(|name| Some((rank(name)?, name))).min_by_key(|(rank, _)| *rank).map(|(_, name)| name)
}

/// `a`, `b` or `c`.
pub(crate) fn choices<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Reads a number with up to six decimals, or a percentage with up to four, into millionths.
///
/// # Errors
/// The fault of the text.
pub fn parse_ratio(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let read = match text.strip_suffix('%') {
        Some(percent) => parse_decimal(percent.trim_end(), 10_000),
        None => parse_decimal(text, 1_000_000),
    };
    // A decimal counts what its unit is made of: nanoseconds elsewhere, millionths here.
    read.map(Span::ns).map_err(|fault| match fault {
        BadNumber::TooFine if text.ends_with('%') => format!("`{text}` has more than four decimals"),
        BadNumber::TooFine => format!("`{text}` has more than six decimals"),
        other => number_fault(other, text),
    })
}

/// Writes millionths so that [`parse_ratio`] reads the same back.
pub(crate) fn ratio_text(millionths: i64) -> String {
    let (sign, n) = (if millionths < 0 { "-" } else { "" }, millionths.unsigned_abs());
    let text = format!("{sign}{}.{:06}", n / 1_000_000, n % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, ns) in [
            ("10ms", 10_000_000),
            ("250us", 250_000),
            ("250 us", 250_000),
            ("7µs", 7_000),
            ("2s", 2_000_000_000),
            ("1.5ms", 1_500_000),
            ("100ns", 100),
            ("1min", 60_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("0s", 0),
            ("0.000000001s", 1),
            ("0.100000000000000000000s", 100_000_000),
            ("366.000h", 366 * 3600 * 1_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Span::from_ns(ns)), "{text}");
        }
    }

    #[test]
    fn wrong_durations_are_explained() {
        for (text, part) in [
            ("", "not a duration"),
            ("ms", "not a duration"),
            ("abc", "not a duration"),
            ("1e3ms", "not a unit"),
            ("10", "did you mean `10ms`?"),
            ("10sec", "not a unit"),
            ("10MS", "not a unit"),
            ("-3ms", "negative"),
            ("1.5ns", "finer than a nanosecond"),
            ("367h1", "not a unit"),
            ("9000h", "longer than a year"),
            ("99999999999999999999s", "too long"),
            ("9999999999999999h", "too long"),
            ("010ms", "octal"),
            ("1.ms", "not a duration"),
            (".5ms", "not a duration"),
            ("--1ms", "not a duration"),
        ] {
            let fault = parse_duration(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn a_duration_written_reads_back() {
        for ns in [0, 1, 999, 1_001, 33_333_333, 999_999_999, 1_000_000_001, 31_536_000_000_000_000] {
            let span = Span::from_ns(ns);
            assert_eq!(parse_duration(&duration_text(span)), Ok(span));
        }
    }

    #[test]
    fn cpu_lists_read_as_the_kernel_writes_them() {
        let set: CpuSet = [0, 2, 5, 6, 7].into_iter().collect();
        assert_eq!(parse_cpus("0,2,5-7"), Ok(set));
        assert_eq!(parse_cpus(" 0, 2, 5 - 7 "), Ok(set));
        assert_eq!(parse_cpus("1023"), Ok(CpuSet::single(1023)));
        for (text, part) in [
            ("", "empty"),
            ("0,,1", "comma"),
            ("0,", "comma"),
            ("1024", "above 1023"),
            ("0-99999999999999999999", "above 1023"),
            ("7-5", "backwards"),
            ("a", "not a CPU number"),
            ("-1", "not a CPU number"),
            ("1-2-3", "not a CPU number"),
            ("+1", "not a CPU number"),
        ] {
            let fault = parse_cpus(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn the_nearest_name_is_found_only_when_it_is_near() {
        assert_eq!(nearest("budgte", ["cmd", "budget", "jitter"]), Some("budget"));
        assert_eq!(nearest("g_edf", ["edf", "g-edf"]), Some("g-edf"));
        assert_eq!(nearest("zzz", ["cmd", "init"]), None);
        assert_eq!(nearest("x", ["s"]), None);
    }

    #[test]
    fn a_word_of_papers_means_a_name_and_signs_between_letters_do_not_count() {
        let keys = ["cpu", "period", "runtime", "deadline", "priority", "cmd", "cpus"];
        for (word, name) in [("C", "runtime"), ("wcet", "runtime"), ("exec_time", "runtime"), ("T", "period")] {
            assert_eq!(nearest(word, keys), Some(name), "{word}");
        }
        for (word, name) in [("D", "deadline"), ("prio", "priority"), ("command", "cmd"), ("cores", "cpus")] {
            assert_eq!(nearest(word, keys), Some(name), "{word}");
        }
        let policies = ["edf", "g-edf", "p-edf", "rm"];
        for (word, name) in [("gedf", "g-edf"), ("PEDF", "p-edf"), ("rate-monotonic", "rm"), ("edff", "edf")] {
            assert_eq!(nearest(word, policies), Some(name), "{word}");
        }
        let policies = ["fifo", "fcbs", "pd2", "llf", "rm", "p-edf"];
        for (word, name) in [("fcfs", "fifo"), ("PFair", "pd2"), ("lst", "llf"), ("psn-edf", "p-edf")] {
            assert_eq!(nearest(word, policies), Some(name), "{word}");
        }
        let keys = ["priority", "name", "offset", "share", "runtime"];
        for (word, name) in [("nice", "priority"), ("start", "offset"), ("e", "runtime"), ("worst_case", "runtime")] {
            assert_eq!(nearest(word, keys), Some(name), "{word}");
        }
        // A word that means nothing here is compared as any other one.
        assert_eq!(nearest("c", ["rm"]), None);
    }
}
