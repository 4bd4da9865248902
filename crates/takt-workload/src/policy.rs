//! Policies with their settings as text: `g-edf`, `rr:quantum=2ms`, or a mapping with a `name`.
//!
//! Each policy declares its settings ([`Setting`]); nothing here knows one of them by name.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::known::registry;
use crate::node::{self, Node, Place};
use crate::reader::Reader;
use crate::text::clipped;
use crate::value::{MAX_DURATION, choices, duration_text, nearest, parse_bool, parse_ratio, parse_signed, ratio_text};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use takt_core::model::{CLUSTER, Kind, PolicySpec, Scope, Setting};
use takt_core::policies::ipi::parameters_of;
use takt_core::policies::ipi::stability::{Unstable, stable};
use takt_core::policies::mapping::MAPPER;
use takt_core::time::Span;

/// The fault of a policy's text.
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) hint: String,
    /// Where in the text; empty is all of it.
    at: Range<usize>,
}

impl Fault {
    fn new(code: Code, message: String, label: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault { code, message, label: label.into(), hint: hint.into(), at: 0..0 }
    }

    fn within(mut self, at: Range<usize>) -> Fault {
        self.at = at;
        self
    }

    pub(crate) fn diagnostic(self, place: &Place) -> Diagnostic {
        Diagnostic::error(self.code, place, self.message).label(self.label).hint(self.hint)
    }

    fn sentence(self) -> PolicyFault {
        let between = if self.label.ends_with('?') { " " } else { "; " };
        PolicyFault { code: self.code, text: format!("{}: {}{between}{}", self.message, self.label, self.hint) }
    }
}

/// A fault of a policy on the command line, in words for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFault {
    /// The kind of the fault.
    pub code: Code,
    text: String,
}

impl PolicyFault {
    pub(crate) fn new(code: Code, text: String) -> PolicyFault {
        PolicyFault { code, text }
    }
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for PolicyFault {}

/// The name of a policy with its scope's prefix, without settings: `g-edf`.
pub(crate) fn policy_name(policy: &PolicySpec) -> String {
    format!("{}{}", policy.prefix(), policy.profile.name)
}

fn policy_names() -> Vec<String> {
    registry().names().map(|(prefix, name)| format!("{prefix}{name}")).collect()
}

fn from_name(name: &str) -> Result<PolicySpec, Fault> {
    registry().spec(name).ok_or_else(|| {
        let names = policy_names();
        let near = nearest(name, names.iter().map(String::as_str));
        let label = near.map_or("not in the registry".to_owned(), |n| format!("did you mean `{n}`?"));
        let hint = "`takt policies` lists them all";
        Fault::new(Code::UnknownPolicy, format!("no policy is called `{}`", clipped(name)), label, hint)
    })
}

/// The settings of this policy: what it declares itself, the size of a cluster in the clustered form, and the mapper.
fn settings(policy: &PolicySpec) -> impl Iterator<Item = &'static Setting> {
    let cluster = (policy.scope == Scope::Clustered).then_some(&CLUSTER);
    let mapper = policy.maps().then_some(&MAPPER);
    policy.profile.settings.iter().filter(|s| s.name != CLUSTER.name).chain(cluster).chain(mapper)
}

/// Finds a setting by its name.
pub(crate) fn setting(policy: &PolicySpec, name: &str) -> Result<&'static Setting, Fault> {
    settings(policy).find(|s| s.name == name).ok_or_else(|| {
        let whole = policy_name(policy);
        let names: Vec<&str> = settings(policy).map(|s| s.name).collect();
        let label = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if name == CLUSTER.name && policy.profile.scopes.contains(&Scope::Clustered) => {
                format!("a setting of the clustered form, `c-{}`", policy.profile.name)
            }
            None if name == MAPPER.name => "a setting of the forms that have several CPUs for one queue".to_owned(),
            None if names.is_empty() => "this policy takes no settings".to_owned(),
            None => "this policy does not take it".to_owned(),
        };
        let hint = match names.as_slice() {
            [] => "remove it".to_owned(),
            [only] => format!("its only setting is `{only}`"),
            _ => format!("its settings are {}", choices(names, "and")),
        };
        Fault::new(
            Code::UnknownSetting,
            format!("the policy `{whole}` has no setting `{}`", clipped(name)),
            label,
            hint,
        )
    })
}

/// The values of a setting, in words.
fn expected(kind: &Kind) -> String {
    let range = |low: String, high: String| format!("from {low} to {high}");
    match *kind {
        Kind::Duration(low, high) => format!("a duration {}", range(duration_text(low), duration_text(high))),
        Kind::Ratio(low, high) => format!("a number {}", range(ratio_text(low), ratio_text(high))),
        Kind::Count(low, high) => format!("a whole number {}", range(low.to_string(), high.to_string())),
        Kind::Choice(words) => choices(words.iter().copied(), "or"),
    }
}

/// `true` and `on` say the same as `yes`, as everywhere in a file.
fn yes_or_no(text: &str) -> &str {
    match parse_bool(text) {
        Some(true) => "yes",
        Some(false) => "no",
        None => text,
    }
}

/// Reads the value of a setting.
pub(crate) fn parse_value(setting: &Setting, text: &str) -> Result<i64, Fault> {
    let text = text.trim();
    let read = match setting.kind {
        // Far more than a year is a slip of the unit, whatever the policy would take.
        Kind::Duration(low, high) => parse_signed(text).map(|s| (s.ns(), low.ns(), high.min(MAX_DURATION).ns())),
        Kind::Ratio(low, high) => parse_ratio(text).map(|n| (n, low, high)),
        Kind::Count(low, high) => {
            text.parse().map(|n| (n, low, high)).map_err(|_| format!("`{}` is not a whole number", clipped(text)))
        }
        Kind::Choice(words) => match words.iter().position(|w| yes_or_no(w) == yes_or_no(text)) {
            Some(index) => Ok((index as i64, 0, i64::MAX)),
            None => Err(nearest(text, words.iter().copied())
                .map_or(format!("`{}` is not one of them", clipped(text)), |near| format!("did you mean `{near}`?"))),
        },
    };
    let (code, why) = match read {
        Ok((value, low, high)) if (low..=high).contains(&value) => return Ok(value),
        Ok((value, low, _)) => (
            Code::OutOfRange,
            format!("`{}` is {}", clipped(text), if value < low { "below that" } else { "above that" }),
        ),
        Err(why) if matches!(setting.kind, Kind::Choice(_)) => (Code::UnknownValue, why),
        Err(why) => (Code::WrongType, why),
    };
    let message = format!("`{}` must be {}", setting.name, expected(&setting.kind));
    Err(Fault::new(code, message, why, format!("{}; by default {}", setting.summary, setting.default)))
}

/// Writes a value so that [`parse_value`] reads it back.
pub(crate) fn value_text(setting: &Setting, value: i64) -> String {
    match setting.kind {
        Kind::Duration(..) => duration_text(Span::from_ns(value)),
        Kind::Ratio(..) => ratio_text(value),
        Kind::Count(..) => value.to_string(),
        Kind::Choice(words) => usize::try_from(value).ok().and_then(|v| words.get(v)).copied().unwrap_or("").to_owned(),
    }
}

/// Keeps the value of one of the policy's settings.
fn store(policy: &mut PolicySpec, setting: &Setting, value: i64) {
    if setting.name == CLUSTER.name {
        // The bounds of the setting are those of a machine.
        policy.cluster = value as u16;
    } else if setting.name == MAPPER.name {
        policy.mapper = value as u8;
    } else if let Some(index) = policy.profile.settings.iter().position(|s| s.name == setting.name) {
        policy.values.set(index, Some(value));
    }
}

/// Whether the settings suit each other: the gains of a control loop must leave it stable.
pub(crate) fn check(policy: &PolicySpec) -> Option<Fault> {
    let p = match parameters_of(policy)? {
        Ok(p) if p.feedback => p,
        // Without feedback there is no loop.
        Ok(_) => return None,
        Err(why) => {
            return Some(Fault::new(
                Code::UnstableGains,
                why.to_string(),
                "these do not suit each other",
                "change one of them",
            ));
        }
    };
    let gain =
        |name: &str, value: i64, bounds: String| format!("`{name}` is {} and must be {bounds}", ratio_text(value));
    let label = match stable(p.kpi, p.krr, p.zrr).err()? {
        Unstable::Inner => gain("kpi", p.kpi, "above 0 and below 2".to_owned()),
        Unstable::Zero => gain("zrr", p.zrr, "above 0 and below 1".to_owned()),
        Unstable::Outer { most } => {
            let with = format!("with kpi {} and zrr {}", ratio_text(p.kpi), ratio_text(p.zrr));
            gain("krr", p.krr, format!("above 0 and at most {} {with}", ratio_text(most)))
        }
    };
    let message = format!("the control loop of `{}` is unstable with these gains", policy_name(policy));
    Some(Fault::new(
        Code::UnstableGains,
        message,
        label,
        "each disturbance would grow from round to round; leave the gains out for a stable preset",
    ))
}

/// A file that is no module of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleFault {
    /// The kind of the fault.
    pub code: Code,
    /// The fault.
    pub message: String,
    /// The way out.
    pub hint: String,
}

/// Loads the module of a policy from a file, and names the policy as a registry has it, without the prefix of a form.
pub type ModuleLoader = fn(&Path) -> Result<String, ModuleFault>;

static MODULES: OnceLock<ModuleLoader> = OnceLock::new();

/// Policies of workload files that end in `.wasm` are files from now on, which this function loads. Only the first call counts.
pub fn load_modules_by(load: ModuleLoader) {
    let _ = MODULES.set(load);
}

/// The text of a policy with the name of its module in place of the file, if it names one. A relative path begins at `directory`.
fn with_module(text: &str, directory: &Path) -> Result<Option<String>, Fault> {
    const ENDING: &str = ".wasm";
    let text = text.trim();
    let file = match text.split_once(".wasm:") {
        Some((file, _)) => &text[..file.len() + ENDING.len()],
        None if text.ends_with(ENDING) => text,
        None => return Ok(None),
    };
    let Some(load) = MODULES.get() else { return Ok(None) };
    let is_form = |prefix: &&str| file.starts_with(prefix) && !directory.join(file).exists();
    let prefix = ["g-", "p-", "c-"].into_iter().find(is_form).unwrap_or_default();
    let name = load(&directory.join(&file[prefix.len()..])).map_err(|fault| {
        let ModuleFault { code, message, hint } = fault;
        Fault::new(code, message, "a relative name is looked for in the directory of the workload", hint)
    })?;
    Ok(Some(format!("{prefix}{name}{}", &text[file.len()..])))
}

/// Gives a policy that was loaded from a file the policy that takes over when it fails: the value of the key `fallback` beside it.
pub(crate) fn with_fallback(reader: &mut Reader, mut policy: PolicySpec, node: &Node) -> PolicySpec {
    let Some(entry) = node.get("fallback") else { return policy };
    if setting(&policy, &entry.key).is_err() {
        let message = format!("`fallback` has no effect beside the policy `{}`", policy_name(&policy));
        let fault = Diagnostic::error(Code::NoEffect, &entry.key_span, message);
        reader.push(fault.label("only a policy that is loaded from a file can fail").hint("remove it"));
    } else if let Some((setting, value)) = read_setting(reader, &policy, entry) {
        store(&mut policy, setting, value);
    }
    policy
}

/// Reads `name` or `name:setting=value,setting=value`.
fn parse(text: &str) -> Result<PolicySpec, Fault> {
    let text = text.trim();
    let Some((name, list)) = text.split_once(':') else { return from_name(text) };
    let mut policy = from_name(name.trim_end()).map_err(|f| f.within(0..name.len()))?;
    let mut seen: Vec<&str> = Vec::new();
    let mut start = name.len() + 1;
    for part in list.split(',') {
        let at = start..start + part.len();
        start = at.end + 1;
        let fault = |code: Code, message: String, label: &str| {
            Fault::new(code, message, label, "settings are written as in `rr:quantum=2ms`, with commas between them")
        };
        let Some((key, value)) = part.split_once('=') else {
            let message = format!("`{}` is not a setting with its value", clipped(part.trim()));
            return Err(fault(Code::SyntaxError, message, "no `=` here").within(at));
        };
        let key = key.trim();
        if seen.contains(&key) {
            return Err(fault(
                Code::DuplicateKey,
                format!("the setting `{}` is given twice", clipped(key)),
                "given again here",
            )
            .within(at));
        }
        seen.push(key);
        let (setting, value) = setting(&policy, key)
            .and_then(|setting| Ok((setting, parse_value(setting, value)?)))
            .map_err(|fault| fault.within(at))?;
        store(&mut policy, setting, value);
    }
    Ok(policy)
}

/// Reads a policy as the command line takes it: its name, and after a colon its settings, as in `rr:quantum=2ms` or
/// `c-edf:cluster=4`.
///
/// # Errors
/// The settings that are unknown or out of range, with the nearest name and all names or the range, and that gains make a control
/// loop unstable; in words for the user.
pub fn policy_from_text(text: &str) -> Result<PolicySpec, PolicyFault> {
    let checked = |policy| check(&policy).map_or(Ok(policy), Err);
    parse(text).and_then(checked).map_err(Fault::sentence)
}

/// Writes a policy so that [`policy_from_text`] reads the same one back, but for its placement: its name, and the settings
/// that are not at their defaults.
#[must_use]
pub fn policy_text(policy: &PolicySpec) -> String {
    let mut text = policy_name(policy);
    let own = policy.profile.settings.iter().zip(policy.values.iter()).filter_map(|(s, v)| Some((s, v?)));
    let size = policy.cluster != PolicySpec::new(policy.profile, policy.scope).cluster;
    let cluster = (policy.scope == Scope::Clustered && size).then_some((&CLUSTER, i64::from(policy.cluster)));
    let mapper = (policy.maps() && policy.mapper > 0).then_some((&MAPPER, i64::from(policy.mapper)));
    for (n, (setting, value)) in own.chain(cluster).chain(mapper).enumerate() {
        text.push(if n == 0 { ':' } else { ',' });
        text.push_str(&format!("{}={}", setting.name, value_text(setting, value)));
    }
    text
}

/// Reads the value of a `policy` key: the text of the command line, or a mapping with a `name`.
pub(crate) fn read(reader: &mut Reader, node: &Node) -> Option<PolicySpec> {
    let policy = read_parts(reader, node)?;
    if let Some(fault) = check(&policy) {
        reader.push(fault.diagnostic(&node.span));
    }
    Some(policy)
}

fn read_parts(reader: &mut Reader, node: &Node) -> Option<PolicySpec> {
    let node::Kind::Map(entries) = &node.kind else {
        let text = reader.scalar(node, "policy", "the name of a policy")?;
        // The place of a part is known where the file has the text verbatim.
        let as_it_is = matches!(node.kind, node::Kind::Scalar { plain: true, .. }) && node.span.len() == text.len();
        let module = match with_module(text, &reader.directory) {
            Ok(module) => module,
            Err(fault) => {
                reader.push(fault.diagnostic(&node.span));
                return None;
            }
        };
        let as_it_is = as_it_is && module.is_none();
        return match parse(module.as_deref().unwrap_or(text)) {
            Ok(policy) => Some(policy),
            Err(fault) => {
                let part = node.span.start + fault.at.start..node.span.start + fault.at.end;
                let place = if as_it_is && !part.is_empty() { part } else { node.span.clone() };
                reader.push(fault.diagnostic(&place));
                None
            }
        };
    };
    let Some(name) = node.get("name") else {
        reader.push(
            Diagnostic::error(Code::MissingKey, &node.head(), "a policy has no `name`")
                .label("in this mapping")
                .hint("write it as in `policy: {name: rr, quantum: 2ms}`"),
        );
        return None;
    };
    let text = reader.scalar(&name.value, "name", "the name of a policy")?;
    let module = with_module(text, &reader.directory);
    let mut policy = match module.and_then(|module| from_name(module.as_deref().unwrap_or(text))) {
        Ok(policy) => policy,
        Err(fault) => {
            reader.push(fault.diagnostic(&name.value.span));
            return None;
        }
    };
    let mut sound = true;
    for entry in entries.iter().filter(|e| e.key != "name") {
        match read_setting(reader, &policy, entry) {
            Some((setting, value)) => store(&mut policy, setting, value),
            None => sound = false,
        }
    }
    sound.then_some(policy)
}

/// An entry of a mapping that sets one of the policy's settings.
pub(crate) fn read_setting(
    reader: &mut Reader,
    policy: &PolicySpec,
    entry: &node::Entry,
) -> Option<(&'static Setting, i64)> {
    let setting = match setting(policy, &entry.key) {
        Ok(setting) => setting,
        Err(fault) => {
            reader.push(fault.diagnostic(&entry.key_span));
            return None;
        }
    };
    let text = reader.scalar(&entry.value, setting.name, &expected(&setting.kind))?;
    match parse_value(setting, text) {
        Ok(value) => Some((setting, value)),
        Err(fault) => {
            reader.push(fault.diagnostic(&entry.value.span));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_is_answered_with_the_nearest_and_where_to_look() {
        let fault = policy_from_text("g-edff").unwrap_err();
        assert!(fault.text.contains("`g-edf`") && fault.text.contains("`takt policies`"), "{fault}");
        // A line of a terminal, whatever the registry holds.
        let strange = policy_from_text("nosuch").unwrap_err();
        assert!(strange.code == Code::UnknownPolicy && strange.text.contains("`takt policies`"), "{strange}");
        let mapper = policy_from_text("g-edf:mapper=nosuch").unwrap_err();
        assert!(mapper.code == Code::UnknownValue && mapper.text.contains("`nosuch`"), "{mapper}");
        assert_eq!(policy_text(&policy_from_text("p-rm").unwrap()), "p-rm");
    }

    const KINDS: [Setting; 5] = [
        Setting { name: "d", kind: Kind::Duration(Span::from_us(-5), Span::from_ms(10)), default: "1ms", summary: "D" },
        Setting { name: "r", kind: Kind::Ratio(-1, 2_000_000), default: "0.5", summary: "R" },
        Setting { name: "c", kind: Kind::Count(1, 64), default: "2", summary: "C" },
        Setting { name: "w", kind: Kind::Choice(&["thesis", "improved"]), default: "`thesis`", summary: "W" },
        Setting { name: "y", kind: Kind::Choice(&["yes", "no"]), default: "yes", summary: "Y" },
    ];

    #[test]
    fn values_are_exact_and_read_back() {
        for (setting, text, value) in [
            (0, "2ms", 2_000_000),
            (0, "-5us", -5_000),
            (0, "0s", 0),
            (1, "0.88", 880_000),
            (1, "0.000001", 1),
            (1, "-0.000001", -1),
            (1, "200%", 2_000_000),
            (1, "12.5%", 125_000),
            (2, "64", 64),
            (3, "improved", 1),
            (4, "on", 0),
            (4, "no", 1),
        ] {
            let setting = &KINDS[setting];
            let read = parse_value(setting, text).unwrap_or_else(|f| panic!("{}", f.sentence()));
            assert_eq!(read, value, "{text}");
            let again = parse_value(setting, &value_text(setting, read)).unwrap_or_else(|f| panic!("{}", f.sentence()));
            assert_eq!(again, value, "{text}");
        }
    }

    #[test]
    fn wrong_values_are_explained() {
        use Code::{OutOfRange, UnknownValue, WrongType};
        for (setting, text, code, part) in [
            (0, "11ms", OutOfRange, "from -5us to 10ms"),
            (0, "-6us", OutOfRange, "from -5us to 10ms"),
            (0, "2", WrongType, "`2ms`"),
            (1, "2.000001", OutOfRange, "from -0.000001 to 2"),
            (1, "0.0000001", WrongType, "six"),
            (1, "x", WrongType, "`x`"),
            (2, "0", OutOfRange, "from 1 to 64"),
            (2, "1.5", WrongType, "`1.5`"),
            (3, "improve", UnknownValue, "`improved`?"),
        ] {
            let Err(fault) = parse_value(&KINDS[setting], text) else { panic!("{text} was taken") };
            let (found, fault) = (fault.code, fault.sentence().text);
            assert!(found == code && fault.contains(part) && fault.contains("by default"), "{text}: {found} {fault}");
        }
    }
}
