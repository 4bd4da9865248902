//! Power policies as text: `minbe`, `skip_be:cpu-thermal,80,5`, or a mapping with a `name`. And whether one suits the workload.
//!
//! Each policy declares its arguments; nothing here knows a policy by its name.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::known::power_registry;
use crate::node::{self, Node};
use crate::reader::Reader;
use crate::text::{clipped, cpus_text};
use crate::value::{choices, duration_text, nearest, parse_cpus, parse_decimal, parse_signed};
use crate::words::PREFERENCES;
use crate::{PolicyFault, Workload};
use std::fmt::Write;
use std::ops::Range;
use takt_core::cpus::CpuSet;
use takt_core::power::{
    Build, Demander, Demands, Fault, Host, Kind, Parameter, Platform, Point, PowerSpec, Profile, Value,
};
use takt_core::time::Span;

/// A number below this names a frequency by its index; no CPU has so few megahertz.
const INDEXES: u32 = 32;

/// A fault in the text of a power policy.
struct Wrong {
    code: Code,
    message: String,
    label: String,
    hint: String,
}

impl Wrong {
    fn new(code: Code, message: String, label: impl Into<String>, hint: impl Into<String>) -> Wrong {
        Wrong { code, message, label: label.into(), hint: hint.into() }
    }
}

/// How a policy is written, with its arguments: `skip_be:zone,limit[,hysteresis]`.
#[must_use]
pub fn power_usage(profile: &Profile) -> String {
    let mut text = profile.name.to_owned();
    for (n, parameter) in profile.parameters.iter().enumerate() {
        let before = if n == 0 { ":" } else { "," };
        let several = match parameter.kind {
            Kind::Points(1) => ",…",
            Kind::Points(_) => ",…,…",
            _ => "",
        };
        let _ = match parameter.default {
            None => write!(text, "{before}{}{several}", parameter.name),
            Some(_) => write!(text, "[{before}{}{several}]", parameter.name),
        };
    }
    text
}

/// The values of an argument, in words.
#[must_use]
pub fn power_argument(parameter: &Parameter) -> String {
    let degrees = |milli: i32| milli / 1000;
    match parameter.kind {
        Kind::Zone => "the name or number of a thermal zone".to_owned(),
        Kind::Temperature(low, high) => format!("degrees Celsius from {} to {}", degrees(low), degrees(high)),
        Kind::Difference(low, high) => format!("degrees from {} to {}", degrees(low), degrees(high)),
        Kind::Points(1) => "a frequency of each domain in MHz, or its index".to_owned(),
        Kind::Points(n) => format!("{n} frequencies of each domain in MHz, or their indexes"),
        Kind::Duration(low, high) => format!("a duration from {} to {}", duration_text(low), duration_text(high)),
        Kind::Count(low, high) => format!("a whole number from {low} to {high}"),
        Kind::Choice(words) => choices(words.iter().copied(), "or"),
    }
}

fn wrong_argument(profile: &Profile, parameter: &Parameter, text: &str) -> Wrong {
    let message =
        format!("`{}` of the power policy `{}` must be {}", parameter.name, profile.name, power_argument(parameter));
    let hint = format!("it is written `{}`: {}", power_usage(profile), parameter.summary);
    Wrong::new(Code::WrongType, message, format!("`{}` is none", clipped(text)), hint)
}

fn frequency(text: &str) -> Option<Point> {
    let text = text.trim();
    match text.parse::<u32>() {
        Ok(index) if index < INDEXES => Some(Point::Index(index)),
        _ => {
            // Thousandths of a megahertz.
            let khz = u32::try_from(parse_decimal(text, 1000).ok()?.ns()).ok()?;
            (khz > 0).then_some(Point::Khz(khz))
        }
    }
}

fn argument(profile: &Profile, parameter: &Parameter, text: &str) -> Result<Value, Wrong> {
    let text = text.trim();
    let milli = |low: i32, high: i32| {
        let value = parse_decimal(text.trim_end_matches("°C").trim_end(), 1000).ok()?.ns();
        (i64::from(low)..=i64::from(high)).contains(&value).then_some(Value::Number(value))
    };
    let value = match parameter.kind {
        Kind::Zone => (!text.is_empty()).then(|| Value::Zone(text.to_owned())),
        Kind::Temperature(low, high) | Kind::Difference(low, high) => milli(low, high),
        Kind::Points(_) => frequency(text).map(|point| Value::Points(vec![point])),
        Kind::Duration(low, high) => {
            let span: Option<Span> = parse_signed(text).ok().filter(|span| (low..=high).contains(span));
            span.map(|span| Value::Number(span.ns()))
        }
        Kind::Count(low, high) => text.parse().ok().filter(|number| (low..=high).contains(number)).map(Value::Number),
        Kind::Choice(words) => {
            words.iter().position(|word| word.eq_ignore_ascii_case(text)).map(|index| Value::Number(index as i64))
        }
    };
    value.ok_or_else(|| wrong_argument(profile, parameter, text))
}

fn unknown(name: &str) -> Wrong {
    let registry = power_registry();
    let names: Vec<&str> = registry.entries().map(|entry| entry.profile.name).collect();
    let aliases = registry.entries().flat_map(|entry| entry.profile.aliases.iter().copied());
    let near = nearest(&name.to_lowercase(), names.iter().copied().chain(aliases)).map(str::to_owned);
    let label = near.map_or("not in the registry".to_owned(), |near| format!("did you mean `{near}`?"));
    let hint = format!("the power policies are {}", choices(names.into_iter(), "and"));
    Wrong::new(Code::UnknownPolicy, format!("no power policy is called `{}`", clipped(name)), label, hint)
}

/// Gives one of the arguments a value.
fn store(spec: &mut PowerSpec, index: usize, text: &str) -> Result<(), Wrong> {
    let parameter = &spec.profile.parameters[index];
    match (argument(spec.profile, parameter, text)?, &mut spec.values[index]) {
        (Value::Points(more), Some(Value::Points(points))) => points.extend(more),
        (value, entry) => *entry = Some(value),
    }
    Ok(())
}

fn named(profile: &Profile, name: &str) -> Result<usize, Wrong> {
    let index = profile.parameters.iter().position(|parameter| parameter.name == name);
    index.ok_or_else(|| {
        let names = || profile.parameters.iter().map(|parameter| parameter.name);
        let label = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "this policy does not take it".to_owned(),
        };
        let message = format!("the power policy `{}` has no argument `{}`", profile.name, clipped(name));
        Wrong::new(Code::UnknownSetting, message, label, format!("it is written `{}`", power_usage(profile)))
    })
}

fn complete(spec: PowerSpec) -> Result<PowerSpec, Wrong> {
    let pairs = spec.profile.parameters.iter().zip(&spec.values);
    let lacking = pairs.into_iter().find(|(parameter, value)| parameter.default.is_none() && value.is_none());
    match lacking {
        None => Ok(spec),
        Some((parameter, _)) => {
            let message = format!("the power policy `{}` needs `{}`", spec.profile.name, parameter.name);
            let hint = format!("write `{}`: {}", power_usage(spec.profile), parameter.summary);
            Err(Wrong::new(Code::MissingValue, message, "an argument is missing", hint))
        }
    }
}

/// Reads `name` or `name:argument,argument`, with arguments by place or by name.
fn parse(text: &str) -> Result<PowerSpec, Wrong> {
    let (name, list) =
        text.trim().split_once(':').map_or((text.trim(), None), |(name, list)| (name.trim(), Some(list)));
    let entry = power_registry().entry(name).ok_or_else(|| unknown(name))?;
    let mut spec = PowerSpec::new(&entry.profile);
    let parameters = spec.profile.parameters;
    let mut place = 0;
    for part in list.into_iter().flat_map(|list| list.split(',')) {
        if let Some((key, value)) = part.split_once('=') {
            let index = named(spec.profile, key.trim())?;
            store(&mut spec, index, value)?;
            continue;
        }
        let Some(parameter) = parameters.get(place) else {
            let message = format!("the power policy `{}` does not take so many arguments", spec.profile.name);
            let hint = format!("it is written `{}`", power_usage(spec.profile));
            return Err(Wrong::new(Code::WrongType, message, format!("`{}` is one too many", clipped(part)), hint));
        };
        store(&mut spec, place, part)?;
        place += usize::from(!matches!(parameter.kind, Kind::Points(_)));
    }
    complete(spec)
}

/// Reads a power policy as the command line takes it, in any case of its letters: its name, and after a colon its arguments.
///
/// # Errors
/// The fault in words for the user, with the nearest name and all names, or with the usage of the policy.
pub fn power_from_text(text: &str) -> Result<PowerSpec, PolicyFault> {
    parse(text).map_err(|wrong| {
        let between = if wrong.label.ends_with('?') { " " } else { "; " };
        PolicyFault::new(wrong.code, format!("{}: {}{between}{}", wrong.message, wrong.label, wrong.hint))
    })
}

fn value_text(parameter: &Parameter, value: &Value) -> String {
    let decimal = |number: i64| {
        let sign = if number < 0 { "-" } else { "" };
        let number = number.unsigned_abs();
        let text = format!("{sign}{}.{:03}", number / 1000, number % 1000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match (value, parameter.kind) {
        (Value::Zone(name), _) => name.clone(),
        (Value::Points(points), _) => {
            let point = |point: &Point| match *point {
                Point::Index(index) => index.to_string(),
                Point::Khz(khz) => decimal(khz.into()),
            };
            points.iter().map(point).collect::<Vec<_>>().join(",")
        }
        (Value::Number(number), Kind::Duration(..)) => duration_text(Span::from_ns(*number)),
        (Value::Number(number), Kind::Choice(words)) => {
            usize::try_from(*number).ok().and_then(|index| words.get(index)).copied().unwrap_or("").to_owned()
        }
        (Value::Number(number), Kind::Temperature(..) | Kind::Difference(..)) => decimal(*number),
        (Value::Number(number), _) => number.to_string(),
    }
}

/// Writes a power policy so that [`power_from_text`] reads the same one back.
#[must_use]
pub fn power_text(spec: &PowerSpec) -> String {
    let mut text = spec.profile.name.to_owned();
    let mut by_place = true;
    let mut first = true;
    for (parameter, value) in spec.profile.parameters.iter().zip(&spec.values) {
        let Some(value) = value else {
            by_place = false;
            continue;
        };
        text.push(if std::mem::take(&mut first) { ':' } else { ',' });
        if !by_place {
            text += parameter.name;
            text.push('=');
        }
        text += &value_text(parameter, value);
    }
    text
}

/// Reads the value of the key `power`: the text of the command line, or a mapping with a `name`.
pub(crate) fn read(reader: &mut Reader, node: &Node) -> Option<PowerSpec> {
    let push = |reader: &mut Reader, wrong: Wrong, place: &Range<usize>| {
        reader.push(Diagnostic::error(wrong.code, place, wrong.message).label(wrong.label).hint(wrong.hint));
    };
    let node::Kind::Map(entries) = &node.kind else {
        let text = reader.scalar(node, "power", "the name of a power policy")?;
        return parse(text).map_err(|wrong| push(reader, wrong, &node.span)).ok();
    };
    let hint = "write it as in `power: {name: skip_be, zone: soc, limit: 80}`";
    let name = reader.required(node, "a power policy", "name", "in this mapping", hint)?;
    let text = reader.scalar(&name.value, "name", "the name of a power policy")?;
    let Some(entry) = power_registry().entry(text.trim()) else {
        push(reader, unknown(text), &name.value.span);
        return None;
    };
    let mut spec = PowerSpec::new(&entry.profile);
    for entry in entries.iter().filter(|entry| entry.key != "name") {
        let index = match named(spec.profile, &entry.key) {
            Ok(index) => index,
            Err(wrong) => {
                push(reader, wrong, &entry.key_span);
                return None;
            }
        };
        let parts: Vec<&Node> = match &entry.value.kind {
            node::Kind::List(items) => items.iter().map(|item| &**item).collect(),
            _ => vec![&entry.value],
        };
        for part in parts {
            let text = reader.scalar(part, &entry.key, &power_argument(&spec.profile.parameters[index]))?;
            if let Err(wrong) = store(&mut spec, index, text) {
                push(reader, wrong, &part.span);
                return None;
            }
        }
    }
    complete(spec).map_err(|wrong| push(reader, wrong, &node.head())).ok()
}

/// Reads the value of the key `epp`: a preference for the CPUs of the workload, or a mapping from CPUs to preferences.
pub(crate) fn preferences(reader: &mut Reader, entry: &node::Entry, cpus: &CpuSet) -> Vec<(CpuSet, &'static str)> {
    let node::Kind::Map(entries) = &entry.value.kind else {
        let hint = "write one preference, or CPUs with preferences as in `epp: {0-3: power, 4: performance}`";
        let name =
            reader.hinted(hint, |reader| reader.choice(&entry.value, "epp", &PREFERENCES.map(|name| (name, name))));
        return name.map(|name| (*cpus, name)).into_iter().collect();
    };
    let mut all: Vec<(CpuSet, &'static str)> = Vec::new();
    for entry in entries {
        let Some(name) = reader.choice(&entry.value, "epp", &PREFERENCES.map(|name| (name, name))) else { continue };
        let place = &entry.key_span;
        let set = match parse_cpus(&entry.key) {
            Ok(set) => set,
            Err(why) => {
                let message = format!("`{}` is not a list of CPUs", clipped(&entry.key));
                let fault = Diagnostic::error(Code::WrongType, place, message).label(why);
                reader.push(
                    fault.hint("write numbers and ranges before the colon, as in `epp: {0-3: power, 4: performance}`"),
                );
                continue;
            }
        };
        let outside = set.difference(cpus);
        if !outside.is_empty() {
            let message = format!("`epp` has {} of no slice or task", cpus_text(&outside));
            let fault = Diagnostic::error(Code::CpuOutside, place, message);
            reader.push(fault.label(format!("the workload has CPU {cpus}")).hint("name CPUs of the workload alone"));
            continue;
        }
        let known = all.iter().fold(CpuSet::EMPTY, |known, (other, _)| known.union(other));
        let twice = set.intersection(&known);
        if !twice.is_empty() {
            let fault =
                Diagnostic::error(Code::ConflictingKeys, place, format!("`epp` has {} twice", cpus_text(&twice)));
            reader.push(fault.label("it has a preference already").hint("give each CPU one preference"));
            continue;
        }
        all.push((set, name));
    }
    all
}

/// Megahertz, without useless digits.
fn mhz(khz: u32) -> String {
    value_text(
        &Parameter { name: "", kind: Kind::Points(1), default: None, summary: "" },
        &Value::Points(vec![Point::Khz(khz)]),
    )
}

impl Workload {
    /// The frequencies that slices and processes ask for.
    #[must_use]
    pub fn demands(&self) -> Demands {
        let khz = |mhz: &Option<f64>| mhz.map(|mhz| (mhz * 1000.0).round().clamp(1.0, f64::from(u32::MAX)) as u32);
        Demands {
            slices: self.slice_frequencies_mhz.iter().map(|window| window.iter().map(khz).collect()).collect(),
            tasks: self.tasks.iter().map(|task| khz(&task.frequency_mhz)).collect(),
        }
    }

    /// Makes the machine of a simulation the one that the key `platform` describes, which begins at its highest frequencies.
    pub fn settle_platform(&mut self) {
        let Some(description) = &self.platform else { return };
        let platform = description.platform();
        let highest = |cpu: usize| {
            let domain = platform.domains.iter().find(|domain| domain.cpus.contains(cpu));
            domain.and_then(|domain| domain.points.last()).map(|point| point.speed).unwrap_or_default()
        };
        self.system.speeds = self.system.cpus.iter().map(highest).collect();
        self.scenario.machine = Some((platform, description.model()));
    }

    /// Builds the power policy of the workload for this machine; `None` where it has none, or `none`. O(windows × slices × domains +
    /// tasks).
    ///
    /// # Errors
    /// Why the policy cannot be used, with the place in the file.
    pub fn power_host(&self, platform: Platform) -> Result<Option<Host>, Box<Diagnostic>> {
        let Some(spec) = self.power.as_ref().filter(|spec| !spec.is_none()) else { return Ok(None) };
        let built = Host::new(spec, power_registry(), &self.system, platform.clone(), &self.demands());
        built.map(Some).map_err(|fault| Box::new(self.power_fault(spec, &platform, &fault)))
    }

    /// By window: the frequencies in kHz that its slices ask for on this machine, by domain. Empty unless this power policy goes by them.
    ///
    /// # Errors
    /// Why the policy cannot be used, with the place in the file.
    pub fn slice_frequencies(
        &self,
        spec: &PowerSpec,
        platform: &Platform,
    ) -> Result<Vec<Vec<(u16, u32)>>, Box<Diagnostic>> {
        if !spec.profile.uses.slices {
            return Ok(Vec::new());
        }
        let build = Build { system: &self.system, platform, demands: &self.demands(), spec };
        build.slice_frequencies().map_err(|fault| Box::new(self.power_fault(spec, platform, &fault)))
    }

    /// Where a demand for a frequency is written.
    fn demand_place(&self, by: Demander) -> Range<usize> {
        match by {
            Demander::Argument => self.power_place.clone(),
            Demander::Slice(window, slice) => {
                let place = self.slice_frequency_places.get(window).and_then(|window| window.get(slice)?.clone());
                place.unwrap_or_else(|| self.power_place.clone())
            }
            Demander::Task(task) => self.place(task),
        }
    }

    fn demander(&self, by: Demander) -> String {
        match by {
            Demander::Argument => "an argument".to_owned(),
            Demander::Slice(window, slice) => format!("slice {slice} of window {window}"),
            Demander::Task(task) => format!("`{}`", self.tasks[task.index()].name),
        }
    }

    fn power_fault(&self, spec: &PowerSpec, platform: &Platform, fault: &Fault) -> Diagnostic {
        let name = spec.profile.name;
        let place = &self.power_place;
        let usage = format!("it is written `{}`", power_usage(spec.profile));
        let of_domain = |domain: usize| {
            let known = &platform.domains[domain];
            let list: Vec<String> = known.points.iter().map(|point| mhz(point.khz)).collect();
            format!("`{}` (CPU {}) has {} MHz", known.name, known.cpus, choices(list.iter().map(String::as_str), "and"))
        };
        match fault {
            Fault::NeedsWindows => {
                let message = format!("the power policy `{name}` needs a window table");
                Diagnostic::error(Code::UnsuitablePolicy, place, message)
                    .label("it goes by windows, and this workload has none")
                    .hint("choose another power policy, such as `low` or `per_process`")
            }
            Fault::NoFrequencies => {
                let message = format!("the power policy `{name}` chooses frequencies, and none is known");
                Diagnostic::error(Code::MissingKey, place, message)
                    .label("no cluster with frequencies")
                    .hint("add `clusters` to `platform`, or choose another power policy")
            }
            Fault::Missing(argument) => {
                let message = format!("the power policy `{name}` needs `{argument}`");
                Diagnostic::error(Code::MissingValue, place, message).label("an argument is missing").hint(usage)
            }
            Fault::UnknownZone(zone) => {
                let near = nearest(zone, platform.zones.iter().map(String::as_str));
                let label = match (near, platform.zones.is_empty()) {
                    (Some(near), _) => format!("did you mean `{near}`?"),
                    (None, true) => "the machine has no thermal zone".to_owned(),
                    (None, false) => "not a zone of the machine".to_owned(),
                };
                let hint = match platform.zones.is_empty() {
                    true => "add `thermal` to `platform`, or choose another power policy".to_owned(),
                    false => format!("the zones are {}", choices(platform.zones.iter().map(String::as_str), "and")),
                };
                let message = format!("there is no thermal zone `{}`", clipped(zone));
                Diagnostic::error(Code::UnknownName, place, message).label(label).hint(hint)
            }
            Fault::Points { given, wanted } => {
                let frequencies = if *wanted == 1 { "frequency" } else { "frequencies" };
                let message = format!("the power policy `{name}` needs {wanted} {frequencies} here, not {given}");
                let domains = platform.domains.iter().map(|domain| domain.name.as_str());
                Diagnostic::error(Code::WrongType, place, message)
                    .label(format!("the frequency domains are {}", choices(domains, "and")))
                    .hint(usage)
            }
            Fault::NoSuchIndex { domain, index } => {
                let message = format!("there is no frequency with index {index}");
                Diagnostic::error(Code::OutOfRange, place, message)
                    .label(format!(
                        "indexes of `{}` end at {}",
                        platform.domains[*domain].name,
                        platform.domains[*domain].points.len() - 1
                    ))
                    .hint(of_domain(*domain))
            }
            Fault::NotAvailable { domain, khz, by } => {
                let message = format!("{} asks for {} MHz, which is not available", self.demander(*by), mhz(*khz));
                Diagnostic::error(Code::UnknownValue, &self.demand_place(*by), message)
                    .label(format!("not a frequency of `{}`", platform.domains[*domain].name))
                    .hint(of_domain(*domain))
            }
            Fault::Conflict { domain, first, second } => {
                let (one, other) = (self.demander(first.0), self.demander(second.0));
                let message = format!(
                    "{one} and {other} ask for different frequencies of `{}` at the same time",
                    platform.domains[*domain].name
                );
                Diagnostic::error(Code::ConflictingKeys, &self.demand_place(second.0), message)
                    .label(format!("{} MHz", mhz(second.1)))
                    .also(&self.demand_place(first.0), format!("{} MHz", mhz(first.1)))
                    .hint(format!("give both the same frequency, or write `{name}:highest`"))
            }
            Fault::Unsuitable(why) => {
                Diagnostic::error(Code::UnsuitablePolicy, place, *why).label(format!("the power policy `{name}`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_by_place_and_by_name_and_written_back() {
        for (text, again) in [
            ("MinBE", "minbe"),
            ("skip_be:soc,60", "skip_be:soc,60"),
            ("skip_be:soc, 60.5 ,2", "skip_be:soc,60.5,2"),
            ("skip_be:limit=60,zone=soc", "skip_be:soc,60"),
            ("imx8_fixed:0,3", "fixed:0,3"),
            ("fixed:600,1596", "fixed:600,1596"),
            ("alternating:600,1200.5,0,3", "alternating:600,1200.5,0,3"),
            ("IMX8_PER_SLICE:highest", "per_slice:highest"),
            ("race_to_idle:latency=20", "race_to_idle:latency=20"),
            ("race_to_idle:5ms", "race_to_idle:5ms"),
        ] {
            let spec = power_from_text(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(power_text(&spec), again, "{text}");
            assert_eq!(power_from_text(again).expect("what was written"), spec, "{text}");
        }
    }

    #[test]
    fn errors_name_the_choices_or_the_usage() {
        for (text, code, part) in [
            ("mimbe", Code::UnknownPolicy, "did you mean `minbe`?"),
            ("nosuch", Code::UnknownPolicy, "`race_to_idle`"),
            ("low:5", Code::WrongType, "`low`"),
            ("skip_be", Code::MissingValue, "`skip_be:zone,limit[,hysteresis]`"),
            ("skip_be:soc,hot", Code::WrongType, "`skip_be:zone,limit[,hysteresis]`"),
            ("skip_be:soc,151", Code::WrongType, "from -40 to 150"),
            ("skip_be:soc,60,2,1", Code::WrongType, "one too many"),
            ("skip_be:soc,limt=60", Code::UnknownSetting, "did you mean `limit`?"),
            ("fixed", Code::MissingValue, "`fixed:frequencies,…`"),
            ("fixed:a", Code::WrongType, "MHz"),
            ("per_slice:lowest", Code::WrongType, "`highest`"),
        ] {
            let fault = power_from_text(text).expect_err(text);
            assert!(fault.code == code && fault.to_string().contains(part), "{text}: {} {fault}", fault.code);
        }
    }
}
