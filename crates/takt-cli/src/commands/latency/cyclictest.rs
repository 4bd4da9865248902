//! The peer: cyclictest of rt-tests, which measures the same way.

use crate::failure::Failure;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt;
use takt_workload::Code;

/// Lateness above it is known only by its maximum. Microseconds.
const HISTOGRAM_US: &str = "20000";

/// It starts its measuring thread within this time.
const START: Duration = Duration::from_secs(1);

/// Whether it is installed.
pub(crate) fn is_installed() -> bool {
    let mut help = Command::new("cyclictest");
    help.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The lateness of so many wake-ups at a SCHED_FIFO priority on a CPU: nanoseconds, in ascending order. cyclictest cuts them to whole microseconds. Those of
/// one microsecond are spread over it evenly, as quantiles of grouped data are found, since all would be half a microsecond too low otherwise.
pub(crate) fn measure(cpu: usize, priority: u8, interval: Span, count: usize) -> Result<Vec<i64>, Failure> {
    let number = |number: i64| number.to_string();
    let child = Command::new("cyclictest")
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
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    move_main_thread(child.id(), cpu);
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    histogram(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("cyclictest gave no histogram: {}", said.trim());
        Failure::machine(Code::MissingProgram, message, "see whether it works by itself")
    })
}

/// The main thread of cyclictest has the CPU of the measuring one, and wakes each 10 ms. The next sample finds the CPU awake then, and is earlier. So the
/// main thread moves to the other CPUs, once the measuring one is there. Where there are none, it stays.
fn move_main_thread(pid: u32, cpu: usize) {
    let threads = format!("/proc/{pid}/task");
    let Ok(others) = rt::affinity(0).map(|own| own.difference(&CpuSet::single(cpu))) else { return };
    let begun = || std::fs::read_dir(&threads).is_ok_and(|threads| threads.count() > 1);
    let given_up = Instant::now() + START;
    while !begun() {
        if Instant::now() > given_up {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if !others.is_empty() {
        let _ = rt::set_affinity(pid as i32, &others);
    }
}

/// Reads `cyclictest -h`: lines of a latency in microseconds and how often it was seen.
fn histogram(text: &str) -> Option<Vec<i64>> {
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().map(str::parse::<i64>);
        if let (Some(Ok(us)), Some(Ok(count)), None) = (words.next(), words.next(), words.next()) {
            values.extend((0..count).map(|index| us * 1000 + (2 * index + 1) * 500 / count));
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
        let found = histogram(text).expect("a histogram");
        assert_eq!((found.len(), found[0], found[48], found[97]), (100, 7_005, 7_494, 7_994));
        assert_eq!(found[98..], [9_500, 25_000_000]);
        assert_eq!(histogram("no histogram here"), None);
    }
}
