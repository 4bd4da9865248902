//! The peer: cyclictest of rt-tests, which measures the same way.
//!
//! Both programs have the same loop, so a difference is one of counting. Whole microseconds, the main thread on the measured CPU and the
//! first wake-ups make cyclictest up to 5 us earlier. Instants that pass while it is late are left out, which makes its p99.9 a third.

use crate::failure::Failure;
use crate::interruption::Interruption;
use std::process::{Command, Stdio};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt;
use takt_workload::Code;

/// Lateness above it, a millisecond, is known only by its maximum: cyclictest has no longer histogram. Nanoseconds.
const HISTOGRAM_NS: &str = "1000000";

/// Whether it is installed.
pub(crate) fn is_installed() -> bool {
    let mut help = Command::new("cyclictest");
    help.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The lateness of so many wake-ups at a SCHED_FIFO priority on a CPU: nanoseconds, in ascending order.
///
/// The main thread of cyclictest has the CPU of the measuring one by default, and wakes each 10 ms. The next sample finds the CPU awake
/// then, and is earlier. So it has the other CPUs, where there are some.
pub(crate) fn measure(
    cpu: usize,
    priority: u8,
    interval: Span,
    count: usize,
    interruption: &Interruption,
) -> Result<Vec<i64>, Failure> {
    let others = rt::affinity(0)?.difference(&CpuSet::single(cpu));
    let mut command = Command::new("/proc/self/exe");
    command.args(["__latency", "cyclictest", "--"]);
    // Else it keeps all CPUs out of their idle states, and measures another machine.
    command.args(["--default-system", "-m", "-t1", "-q", "-N", "-h", HISTOGRAM_NS]);
    for (option, number) in
        [("-p", i64::from(priority)), ("-a", cpu as i64), ("-i", interval.ns() / 1000), ("-l", count as i64)]
    {
        command.args([option, &number.to_string()]);
    }
    if !others.is_empty() {
        command.arg(format!("--mainaffinity={others}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = interruption.output(&mut command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    histogram(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("cyclictest gave no histogram: {}", said.trim());
        Failure::machine(Code::MissingProgram, message, "see whether it works by itself")
    })
}

/// Reads `cyclictest -h`: lines of a lateness in nanoseconds and how often it was seen.
fn histogram(text: &str) -> Option<Vec<i64>> {
    let mut values = Vec::new();
    // Nearly all of a million lines say that a lateness was never seen.
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 000000")) {
        let mut words = line.split_whitespace();
        let Some((ns, count)) = words.next().zip(words.next()).filter(|_| words.next().is_none()) else { continue };
        if let (Ok(ns), Ok(count)) = (ns.parse(), count.parse::<usize>()) {
            values.extend(std::iter::repeat_n::<i64>(ns, count));
        }
    }
    // A value beyond the histogram is known only by the maximum.
    let number = |key: &str| -> Option<i64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let max = number("# Max Latencies:")?;
    let overflows = usize::try_from(number("# Histogram Overflows:").unwrap_or(0)).ok()?;
    values.extend(std::iter::repeat_n(max, overflows));
    (!values.is_empty()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_of_cyclictest_is_read() {
        let text = "# Histogram\n000000 000000\n007005 000098\n009500 000001\n# Total: 000000099\n# Min Latencies: 07005\n\
                    # Avg Latencies: 07030\n# Max Latencies: 25000000\n# Histogram Overflows: 00001\n\
                    # Histogram Overflow at cycle number:\n# Thread 0: 00042\n";
        let found = histogram(text).expect("a histogram");
        assert_eq!((found.len(), found[0], found[97]), (100, 7_005, 7_005));
        assert_eq!(found[98..], [9_500, 25_000_000]);
        assert_eq!(histogram("no histogram here"), None);
    }
}
