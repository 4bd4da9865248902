//! Tables for people: aligned columns, and the one rule of how times stand in them.
//!
//! The times of a column have one unit and equally many decimals, so that they can be compared at a glance. The unit is that of the
//! largest, unless the smallest were below a hundredth of it: then it is a smaller one. Exact times keep all their digits. Measured
//! ones have as many decimals as the smallest needs to show four digits, at most three.

use std::borrow::Borrow;
use std::io::{self, Write};
use takt_core::time::Span;

/// The content of a row and column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    /// Words or a number.
    Text(String),
    /// A time that holds exactly.
    Exact(Span),
    /// A time that was measured.
    Measured(Span),
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

/// A bound or deadline that need not be there.
impl From<Option<Span>> for Cell {
    fn from(span: Option<Span>) -> Cell {
        span.map_or_else(|| "-".into(), Cell::Exact)
    }
}

impl Cell {
    fn time(&self) -> Option<Span> {
        match self {
            Cell::Text(_) => None,
            Cell::Exact(span) | Cell::Measured(span) => Some(*span),
        }
    }

    /// The text of a cell that stands beside no other.
    #[must_use]
    pub fn alone(&self) -> String {
        self.text(&Form::of(std::iter::once(self)))
    }

    fn text(&self, form: &Form) -> String {
        match self {
            Cell::Text(text) => visible(text),
            Cell::Exact(span) | Cell::Measured(span) => form.text(*span),
        }
    }
}

/// Units of time: their length in nanoseconds and how many decimals they can have.
const UNITS: [(&str, u64, usize); 4] = [("s", 1_000_000_000, 9), ("ms", 1_000_000, 6), ("us", 1_000, 3), ("ns", 1, 0)];

/// How the times of a column are written.
struct Form {
    name: &'static str,
    unit: u64,
    decimals: usize,
}

impl Form {
    fn of<C: Borrow<Cell>>(column: impl Iterator<Item = C> + Clone) -> Form {
        let lengths = || {
            let times = column.clone().filter_map(|cell| cell.borrow().time());
            times.map(|span| span.ns().unsigned_abs()).filter(|ns| *ns > 0)
        };
        let (largest, smallest) = (lengths().max().unwrap_or(0), lengths().min().unwrap_or(0));
        let fits = |(_, unit, _): &&(&str, u64, usize)| largest >= *unit && smallest >= unit / 100;
        let (name, unit, most) = match largest {
            0 => UNITS[0],
            _ => *UNITS.iter().find(fits).unwrap_or(&UNITS[UNITS.len() - 1]),
        };
        let needed = |cell: C| match cell.borrow() {
            Cell::Text(_) => 0,
            Cell::Measured(_) if smallest == 0 => 0,
            Cell::Measured(_) => {
                [1, 10, 100, 1000].iter().rev().take_while(|part| smallest < unit * **part).count().min(3)
            }
            Cell::Exact(span) => {
                let rest = span.ns().unsigned_abs() % unit;
                (0..most).find(|n| rest % (unit / 10_u64.pow(*n as u32)) == 0).unwrap_or(most)
            }
        };
        Form { name, unit, decimals: column.clone().map(needed).max().unwrap_or(0).min(most) }
    }

    /// Rounded to the nearest digit that is shown.
    fn text(&self, span: Span) -> String {
        let (sign, ns) = (if span < Span::ZERO { "-" } else { "" }, u128::from(span.ns().unsigned_abs()));
        let (unit, scale) = (u128::from(self.unit), 10_u128.pow(self.decimals as u32));
        let value = (ns * scale + unit / 2) / unit;
        match self.decimals {
            0 => format!("{sign}{value}{}", self.name),
            digits => format!("{sign}{}.{:0digits$}{}", value / scale, value % scale, self.name),
        }
    }
}

/// Words and times that belong together, as a column would have them.
#[must_use]
pub fn alike(cells: &[Cell]) -> Vec<String> {
    let form = Form::of(cells.iter());
    cells.iter().map(|cell| cell.text(&form)).collect()
}

/// A time to four digits, for a sentence.
#[must_use]
pub fn short(time: Span) -> String {
    Cell::Measured(time).alone()
}

/// Prints rows with aligned columns: the first to the left, the others to the right.
///
/// # Errors
/// Those of the output.
pub fn table<C: Clone + Into<Cell>>(out: &mut impl Write, rows: &[Vec<C>]) -> io::Result<()> {
    aligned(out, rows, |column| column == 0)
}

/// The text without characters that a terminal would obey or hide.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars().map(takt_workload::visible).collect()
}

/// Prints rows with aligned columns: those for which `left` holds, which are of words, to the left, the others to the right.
///
/// # Errors
/// Those of the output.
pub fn aligned<C: Clone + Into<Cell>>(
    out: &mut impl Write,
    rows: &[Vec<C>],
    left: impl Fn(usize) -> bool,
) -> io::Result<()> {
    // A table of many rows is no larger in memory than what it is made of: texts are made twice, for their width and to be written.
    let column = |c: usize| rows.iter().filter_map(move |row| row.get(c)).cloned().map(Into::<Cell>::into);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let of_column = |c: usize| {
        let form = Form::of(column(c));
        let width = column(c).map(|cell| cell.text(&form).chars().count()).max().unwrap_or(0);
        (form, width)
    };
    let columns: Vec<(Form, usize)> = (0..columns).map(of_column).collect();
    for row in rows {
        let cells =
            row.iter().cloned().map(Into::<Cell>::into).zip(&columns).enumerate().map(|(c, (cell, (form, width)))| {
                let text = cell.text(form);
                if left(c) { format!("{text:<width$}") } else { format!("{text:>width$}") }
            });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Millionths as percent with two decimals.
#[must_use]
pub fn percent(millionths: i64) -> String {
    let hundredths = (millionths + 50) / 100;
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_column_have_one_unit_and_equal_decimals() {
        for (exact, ns, texts) in [
            (true, &[600_000, 250_000, 1_000_000][..], &["0.60ms", "0.25ms", "1.00ms"][..]),
            (true, &[0, 40_000_000], &["0ms", "40ms"]),
            (true, &[0, 0], &["0s", "0s"]),
            (true, &[5_000_000, 10_000_000_000], &["5ms", "10000ms"]),
            (true, &[999, 1_000_000_001], &["0.999us", "1000000.001us"]),
            (true, &[9, 1_000_000_001], &["9ns", "1000000001ns"]),
            (true, &[10_000_000, 1_000_000_001], &["0.010000000s", "1.000000001s"]),
            (true, &[-1_500, 20_000], &["-1.5us", "20.0us"]),
            (false, &[1_000_000, 12_345_678], &["1.000ms", "12.346ms"]),
            (false, &[12_345_678, 123_456_789], &["12.35ms", "123.46ms"]),
            (false, &[123_456_789, 0], &["123.5ms", "0.0ms"]),
            (false, &[9_999, 1_234_567], &["9.999us", "1234.567us"]),
            (false, &[7, 900], &["7ns", "900ns"]),
            (false, &[1_500_000_000_000], &["1500s"]),
            (false, &[0, 0], &["0s", "0s"]),
        ] {
            let cell = |ns: &i64| {
                let span = Span::from_ns(*ns);
                if exact { Cell::Exact(span) } else { Cell::Measured(span) }
            };
            let column: Vec<Cell> = ns.iter().map(cell).collect();
            let form = Form::of(column.iter());
            assert_eq!(column.iter().map(|c| c.text(&form)).collect::<Vec<_>>(), texts);
        }
    }

    #[test]
    fn times_of_a_sentence_have_four_digits_or_are_alike() {
        for (ns, text) in [
            (0, "0s"),
            (999, "999ns"),
            (1_000, "1.000us"),
            (12_345_678, "12.35ms"),
            (-12_345_678, "-12.35ms"),
            (123_456_789, "123.5ms"),
            (3_000_000_000, "3.000s"),
        ] {
            assert_eq!(short(Span::from_ns(ns)), text);
        }
        let cells = [Cell::Measured(Span::from_ns(997)), " of ".into(), Cell::Measured(Span::from_ns(1_495))];
        assert_eq!(alike(&cells).concat(), "0.997us of 1.495us");
    }

    #[test]
    fn words_stand_among_times_and_beside_them() {
        let mut out = Vec::new();
        let rows = [
            vec!["task".into(), "at most".into()],
            vec!["a".into(), Cell::Exact(Span::from_us(1250)), "or more".into()],
            vec!["long".into(), Cell::Exact(Span::from_ms(2))],
            vec!["c".into(), Cell::from(None)],
        ];
        table(&mut out, &rows).unwrap();
        let wanted = "task  at most\na      1.25ms  or more\nlong   2.00ms\nc           -\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
