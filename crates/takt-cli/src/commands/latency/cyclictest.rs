//! The peer: cyclictest of rt-tests, which measures the same way.

use crate::failure::Failure;
use std::process::{Command, Stdio};
use takt_core::time::Span;
use takt_workload::Code;

/// Lateness above it is known only by its maximum. Microseconds.
const HISTOGRAM_US: &str = "20000";

/// Whether it is installed.
pub(crate) fn is_installed() -> bool {
    let mut help = Command::new("cyclictest");
    help.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The lateness of so many wake-ups at a SCHED_FIFO priority on a CPU: nanoseconds, to a microsecond, in ascending order.
pub(crate) fn measure(cpu: usize, priority: u8, interval: Span, count: usize) -> Result<Vec<i64>, Failure> {
    let number = |number: i64| number.to_string();
    let output = Command::new("cyclictest")
        // Else it keeps all CPUs out of their idle states, and measures another machine.
        .args([
            "--default-system",
            "-m",
            "-t1",
            "-q",
            "-h",
            HISTOGRAM_US,
            "-p",
            &number(priority.into()),
            "-a",
            &number(cpu as i64),
        ])
        .args(["-i", &number(interval.ns() / 1000), "-l", &number(count as i64)])
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    histogram(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("cyclictest gave no histogram: {}", said.trim());
        Failure::machine(Code::MissingProgram, message, "see whether it works by itself")
    })
}

/// Reads `cyclictest -h`: lines of a latency in microseconds and how often it was seen.
fn histogram(text: &str) -> Option<Vec<i64>> {
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().map(str::parse::<i64>);
        if let (Some(Ok(us)), Some(Ok(count)), None) = (words.next(), words.next(), words.next()) {
            values.extend(std::iter::repeat_n(us * 1000, usize::try_from(count).ok()?));
        }
    }
    // A value beyond the histogram is known only by the maximum.
    let number = |key: &str| -> Option<i64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let max = number("# Max Latencies:")? * 1000;
    let overflows = usize::try_from(number("# Histogram Overflows:").unwrap_or(0)).ok()?;
    values.extend(std::iter::repeat_n(max, overflows));
    (!values.is_empty()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_of_cyclictest_is_read() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n000007 000098\n000009 000001\n\
                    # Total: 000000099\n# Min Latencies: 00007\n# Avg Latencies: 00007\n# Max Latencies: 25000\n\
                    # Histogram Overflows: 00001\n# Histogram Overflow at cycle number:\n# Thread 0: 00042\n";
        let mut wanted = vec![7_000; 98];
        wanted.extend([9_000, 25_000_000]);
        assert_eq!(histogram(text), Some(wanted));
        assert_eq!(histogram("no histogram here"), None);
    }
}
