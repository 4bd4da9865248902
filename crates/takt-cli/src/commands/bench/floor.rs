//! The floor: how late this machine wakes a thread that does nothing else. `cyclictest` where it is installed.

use super::figures::Figures;
use crate::commands::latency::measure::{Method, wake};
use crate::failure::Failure;
use std::process::{Command, Stdio};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_workload::Code;

/// Who measures the floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Floor {
    Cyclictest,
    BuiltIn,
}

impl Floor {
    pub(super) fn find() -> Floor {
        let help = Command::new("cyclictest")
            .arg("--help")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if help.is_ok() { Floor::Cyclictest } else { Floor::BuiltIn }
    }
    pub(super) fn name(self) -> &'static str {
        match self {
            Floor::Cyclictest => "cyclictest",
            Floor::BuiltIn => "timer loop (no cyclictest here)",
        }
    }
    /// Wakes `count` times at FIFO 80 on this CPU.
    pub(super) fn measure(self, cpu: usize, interval: Span, count: usize) -> Result<Figures, Failure> {
        match self {
            Floor::Cyclictest => cyclictest(cpu, interval, count),
            Floor::BuiltIn => built_in(cpu, interval, count),
        }
    }
}

fn cyclictest(cpu: usize, interval: Span, count: usize) -> Result<Figures, Failure> {
    let interval = (interval.ns() / 1000).to_string();
    let output = Command::new("cyclictest")
        .args(["-m", "-p", "80", "-a", &cpu.to_string(), "-t1", "-i", &interval, "-l", &count.to_string()])
        .args(["-q", "-h", "20000"])
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    histogram(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::machine(
            Code::MissingProgram,
            format!("cyclictest gave no histogram: {}", said.trim()),
            "see whether it works by itself",
        )
    })
}

/// Reads `cyclictest -h`: lines of a latency in microseconds and how often it was seen.
fn histogram(text: &str) -> Option<Figures> {
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().map(str::parse::<i64>);
        if let (Some(Ok(us)), Some(Ok(count)), None) = (words.next(), words.next(), words.next()) {
            values.extend(std::iter::repeat_n(us * 1000, usize::try_from(count).ok()?));
        }
    }
    // What does not fit into the histogram is known only by its maximum.
    let number = |key: &str| -> Option<i64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let max = number("# Max Latencies:")? * 1000;
    let overflows = usize::try_from(number("# Histogram Overflows:").unwrap_or(0)).ok()?;
    values.extend(std::iter::repeat_n(max, overflows));
    if values.is_empty() { None } else { Some(Figures { max, ..Figures::of(values) }) }
}

fn built_in(cpu: usize, interval: Span, count: usize) -> Result<Figures, Failure> {
    let thread = std::thread::spawn(move || -> std::io::Result<Vec<i64>> {
        rt::set_affinity(0, &CpuSet::single(cpu))?;
        rt::set_class(0, Class::Fifo(80))?;
        let late = wake(Method::Nanosleep, interval, count);
        rt::set_class(0, Class::Other)?;
        late
    });
    let late = thread.join().map_err(|_| Failure::status(101, Code::InternalFault, "the timer loop failed"))?;
    Ok(Figures::of(late?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_of_cyclictest_is_read() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n000007 000098\n000009 000001\n\
                    # Total: 000000099\n# Min Latencies: 00007\n# Avg Latencies: 00007\n# Max Latencies: 25000\n\
                    # Histogram Overflows: 00001\n# Histogram Overflow at cycle number:\n# Thread 0: 00042\n";
        assert_eq!(histogram(text), Some(Figures { count: 100, p50: 7_000, p99: 9_000, max: 25_000_000 }));
        assert_eq!(histogram("no histogram here"), None);
    }
}
