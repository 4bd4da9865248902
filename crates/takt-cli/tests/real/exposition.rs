//! A reader of Prometheus' text format, version 0.0.4, that takes nothing that the format does not allow.

use std::collections::{BTreeMap, BTreeSet};

/// Labels in the order of their names.
type Labels = BTreeMap<String, String>;

/// The samples of a body in the format.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Exposition {
    /// A value, by the name of its metric and its labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }

    /// Reads a body.
    ///
    /// # Errors
    /// The first line that the format does not allow.
    pub(crate) fn read(text: &str) -> Result<Exposition, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".into());
        }
        let (mut read, mut helped, mut family) = (Exposition::default(), BTreeSet::new(), String::new());
        for line in text.lines() {
            read.line(line, &mut helped, &mut family).map_err(|why| format!("{why}: {line:?}"))?;
        }
        let empty = read.kinds.keys().find(|name| !helped.contains(*name));
        empty.map_or(Ok(()), |name| Err(format!("{name} has no help")))?;
        read.histograms()?;
        Ok(read)
    }

    fn line(&mut self, line: &str, helped: &mut BTreeSet<String>, family: &mut String) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("a help without text")?;
            is_name(name)?;
            let twice = !helped.insert(name.into());
            return if twice || help.is_empty() { Err("a second or an empty help".into()) } else { Ok(()) };
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("a type without its kind")?;
            is_name(name)?;
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return Err("an unknown kind".into());
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err("the name of a counter ends in _total, and no other does".into());
            }
            *family = name.into();
            let twice = self.kinds.insert(name.into(), kind.into()).is_some();
            return if twice { Err("a family in two places".into()) } else { Ok(()) };
        }
        let (name, labels, value) = sample(line)?;
        let own = match self.kinds.get(family).map(String::as_str) {
            Some("histogram") => ["_bucket", "_sum", "_count"].iter().any(|end| name == format!("{family}{end}")),
            Some(_) => name == *family,
            None => false,
        };
        if !own {
            return Err(format!("a sample within the family {family}"));
        }
        if !value.is_finite() || (value < 0.0 && self.kinds.get(family).is_some_and(|kind| kind == "counter")) {
            return Err("an impossible value".into());
        }
        let twice = self.samples.insert((name, labels), value).is_some();
        if twice { Err("a second sample of the same labels".into()) } else { Ok(()) }
    }

    /// Buckets are cumulative, and the last one has all values.
    fn histograms(&self) -> Result<(), String> {
        for (family, _) in self.kinds.iter().filter(|(_, kind)| *kind == "histogram") {
            let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for ((name, labels), value) in &self.samples {
                if *name == format!("{family}_bucket") {
                    let mut labels = labels.clone();
                    let bound = labels.remove("le").ok_or("a bucket without a bound")?;
                    let bound = if bound == "+Inf" { f64::INFINITY } else { number(&bound)? };
                    series.entry(labels).or_default().push((bound, *value));
                }
            }
            for (labels, mut buckets) in series {
                buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
                let cumulative = buckets.is_sorted_by_key(|(_, count)| *count);
                let count = self.samples.get(&(format!("{family}_count"), labels.clone()));
                let last = buckets.last().filter(|(bound, _)| bound.is_infinite()).map(|(_, count)| count);
                let sum = self.samples.contains_key(&(format!("{family}_sum"), labels.clone()));
                if !cumulative || last.is_none() || last != count || !sum {
                    return Err(format!("the histogram {family} of {labels:?}: {buckets:?}, count {count:?}"));
                }
            }
        }
        Ok(())
    }
}

fn is_name(name: &str) -> Result<(), String> {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let continues = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if begins && continues { Ok(()) } else { Err(format!("the name {name:?}")) }
}

fn number(text: &str) -> Result<f64, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || ".-".contains(c));
    text.parse().ok().filter(|_| plain).ok_or_else(|| format!("the number {text:?}"))
}

/// `name{label="value",…} value`.
fn sample(line: &str) -> Result<(String, Labels, f64), String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    is_name(name)?;
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            is_name(label)?;
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let end = loop {
                match chars.next().ok_or("a value without an end")? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next() {
                        Some((_, 'n')) => '\n',
                        Some((_, c @ ('\\' | '"'))) => c,
                        _ => return Err("an unknown escape".into()),
                    }),
                    (_, c) => value.push(c),
                }
            };
            if labels.insert(label.into(), value).is_some() {
                return Err("a label twice".into());
            }
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').ok_or("labels without an end")?;
    }
    let value = rest.strip_prefix(' ').ok_or("no value")?;
    Ok((name.into(), labels, number(value)?))
}

#[test]
fn invalid_expositions_are_refused() {
    let head = "# HELP a_total A.\n# TYPE a_total counter\n";
    let read = Exposition::read(&format!("{head}a_total{{x=\"\\\\\\\"\\n\"}} 1\n")).unwrap();
    assert_eq!(read.value("a_total", &[("x", "\\\"\n")]), Some(1.0));
    for wrong in [
        "a_total 1",
        "a_total -1\n",
        "a_total NaN\n",
        "a_total{x=\"\\t\"} 1\n",
        "a_total{x=\"1\"} 1\na_total{x=\"1\"} 1\n",
        "b_total 1\n",
        "a_total{x=1} 1\n",
        "a_total{x=\"1\" 1\n",
    ] {
        assert!(Exposition::read(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    let head = "# HELP h H.\n# TYPE h histogram\n";
    let good = "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n";
    assert!(Exposition::read(&format!("{head}{good}")).is_ok());
    for (from, to) in [("+Inf\"} 2", "+Inf\"} 3"), ("le=\"1\"} 1", "le=\"1\"} 9"), ("h_sum 3\n", "")] {
        assert!(Exposition::read(&format!("{head}{}", good.replace(from, to))).is_err(), "{to}");
    }
}
