//! The output of failed tests.

use std::collections::VecDeque;
use std::fmt;

/// The output of failed tests, by the lines of `cargo test`.
#[derive(Default)]
pub(crate) struct Failures {
    /// The head of each section and its lines, each cut to [`Failures::WIDTH`] characters.
    sections: Vec<(String, VecDeque<String>)>,
    /// The last section continues.
    open: bool,
}

impl Failures {
    /// Sections that are kept.
    const TESTS: usize = 6;
    /// Lines that are kept of each, the last ones.
    const LINES: usize = 10;
    const WIDTH: usize = 300;

    /// Takes the next line of the output.
    pub(crate) fn line(&mut self, line: &str) {
        let head = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----"));
        if let Some(head) = head {
            self.open = self.sections.len() < Self::TESTS;
            if self.open {
                self.sections.push((head.to_owned(), VecDeque::new()));
            }
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.open = false;
        } else if self.open
            && !line.is_empty()
            && let Some((_, lines)) = self.sections.last_mut()
        {
            if lines.len() == Self::LINES {
                lines.pop_front();
            }
            lines.push_back(line.chars().take(Self::WIDTH).collect());
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (head, lines) in &self.sections {
            writeln!(f, "FAILED: {head}")?;
            lines.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Failures;

    /// The form of `cargo test`: sections of failed tests, and then their names.
    #[test]
    fn the_last_lines_of_failed_tests_are_kept() {
        let mut failures = Failures::default();
        let many: Vec<String> = (0..20).map(|i| format!("line {i}")).collect();
        let long = "x".repeat(1000);
        let section =
            |name: &str, lines: &[&str]| [&[&*format!("---- {name} stdout ----")], lines, &[""]].concat().join("\n");
        let many = section("a::many", &many.iter().map(String::as_str).collect::<Vec<_>>());
        let output = format!(
            "test a::many ... FAILED\n\nfailures:\n\n{many}\n{}\n\nfailures:\n    a::many\n",
            section("a::long", &[&long])
        );
        output.lines().for_each(|line| failures.line(line));
        let kept: String = (10..20).map(|i| format!("    line {i}\n")).collect();
        let expected = format!("FAILED: a::many stdout\n{kept}FAILED: a::long stdout\n    {}\n", &long[..300]);
        assert_eq!(failures.to_string(), expected);
    }
}
