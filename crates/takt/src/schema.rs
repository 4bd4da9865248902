//! The keys of a workload file as a JSON Schema (draft 2020-12), so that editors complete and check workload files.
//!
//! It comes from the tables of [`takt_workload::keys`] and the registries of policies alone. Values are those of YAML 1.2, as editors read them.
//!
//! # Limits
//! A schema describes each value by itself. It does not know rules between keys, references to names, bounds that depend on other keys, or which settings
//! belong to which policy. It cannot tell `5` from `5.0`, since both are one number in JSON. [`check()`](crate::check()) reports all of these.

use serde_json::{Map, Value, json};
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{CLUSTER, Kind as SettingKind, Setting};
use takt_core::policies::mapping::MAPPER;
use takt_core::power::Kind as ArgumentKind;
use takt_workload::keys::{ALL, Key, Kind, STALE, STEP, Use, has_drivers, partition, process, units_of_time};
use takt_workload::{LIMITS, LIMITS_IN_BYTES, power_registry, registry};

/// The types of a single value in YAML 1.2, but for an empty one.
const SINGLE: [&str; 3] = ["string", "number", "boolean"];
/// A decimal number from zero, and one above zero. A leading zero is octal to some readers.
const DECIMAL: &str = r"(0|[1-9][0-9]*)(\.[0-9]+)?";
const POSITIVE: &str = r"([1-9][0-9]*(\.[0-9]+)?|0\.0*[1-9][0-9]*)";

/// The schema of a workload file. Equal registries give equal schemas.
#[must_use]
pub fn schema() -> Value {
    let mut writer = Writer::default();
    let (_, keys) = ALL[0];
    let root = writer.object(keys, true);
    let Value::Object(mut schema) = root else { return root };
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Takt workload",
        "description": "A schedule for Takt: a window table (`windows`, `partitions`), or `tasks` under an online policy.",
        "anyOf": [{"required": ["windows"]}, {"required": ["tasks"]}],
    });
    if let Value::Object(head) = head {
        schema.extend(head);
    }
    schema.insert("$defs".into(), Value::Object(writer.definitions));
    Value::Object(schema)
}

/// Collects the definitions to which a schema refers.
#[derive(Default)]
struct Writer {
    definitions: Map<String, Value>,
}

impl Writer {
    /// A reference to a definition, which is made when it is first referred to.
    fn definition(&mut self, name: &str, make: impl FnOnce(&mut Writer) -> Value) -> Value {
        let name = name.replace(' ', "-");
        if !self.definitions.contains_key(&name) {
            self.definitions.insert(name.clone(), Value::Null);
            let made = make(self);
            self.definitions.insert(name.clone(), made);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    /// A mapping with these keys. `drivers` says whether the keys have their own uses in the drivers.
    fn object(&mut self, keys: &[Key], drivers: bool) -> Value {
        let properties: Map<String, Value> =
            keys.iter().map(|key| (key.name.to_owned(), self.property(key, drivers))).collect();
        let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        let mut object = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            object["required"] = json!(required);
        }
        object
    }

    fn property(&mut self, key: &Key, drivers: bool) -> Value {
        let mut schema = self.kind(&key.kind);
        schema["description"] = json!(description(key, drivers));
        schema
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match *kind {
            Kind::Text | Kind::Name => json!({"type": SINGLE, "pattern": r"\S"}),
            Kind::Address => text(r"([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-fA-F:.]+(%[0-9]+)?\]):[0-9]{1,5}"),
            Kind::Empty => json!({"type": "null"}),
            Kind::Word { words, default } => {
                let truths: Vec<Value> = [("yes", true), ("no", false)]
                    .into_iter()
                    .filter(|(word, _)| words.contains(word))
                    .map(truth)
                    .collect();
                let named = json!({"enum": words});
                let mut schema = if truths.is_empty() { named } else { any([named].into_iter().chain(truths)) };
                if let Some(default) = default {
                    schema["default"] = json!(default);
                }
                schema
            }
            Kind::Named { prefix, optional, values } => {
                let all = |optional: &str| {
                    values.iter().map(|value| format!("{prefix}{optional}{value}")).collect::<Vec<_>>()
                };
                match optional {
                    "" => json!({"enum": all("")}),
                    _ => json!({"anyOf": [{"enum": all("")}, {"enum": all(optional)}]}),
                }
            }
            Kind::Numbered { prefix, most } => text(&format!("{prefix}0*{}", from_one(most))),
            Kind::Boolean { default } => {
                let mut schema = any([json!({"enum": ["yes", "no"]}), truth(("yes", true)), truth(("no", false))]);
                if let Some(default) = default {
                    schema["default"] = json!(if default { "yes" } else { "no" });
                }
                schema
            }
            Kind::Yes => any([json!({"enum": ["yes"]}), truth(("yes", true))]),
            Kind::Whole { least, most } => {
                any([json!({"type": "integer", "minimum": least, "maximum": most}), text("[0-9]+")])
            }
            Kind::Duration { bare, zero } => {
                let number = if zero { DECIMAL } else { POSITIVE };
                let with_unit = spaced(&format!(r"{number}\s*({})", units_of_time().collect::<Vec<_>>().join("|")));
                match bare {
                    true => any([above(zero), spaced(number), with_unit]),
                    false => with_unit,
                }
            }
            Kind::Signed => spaced(&format!(r"-?{DECIMAL}\s*({})", units_of_time().collect::<Vec<_>>().join("|"))),
            Kind::Ratio { zero, percent, most } => {
                let mut number = above(zero);
                number["maximum"] = json!(most);
                let written = |decimals: usize| format!(r"(0|[1-9][0-9]*)(\.[0-9]{{1,{decimals}}}0*)?");
                let texts = [Some(written(6)), percent.then(|| written(4) + r"\s*%")];
                any([number].into_iter().chain(texts.into_iter().flatten().map(|pattern| spaced(&pattern))))
            }
            Kind::Frequency => any([above(false), text(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")]),
            Kind::Celsius => {
                any([json!({"type": "number", "minimum": -40, "maximum": 150}), spaced(&format!("-?{DECIMAL}"))])
            }
            Kind::Quantity { of, zero } => {
                let number = if zero { DECIMAL } else { POSITIVE };
                spaced(&format!(r"{number}\s*({})", of.unit_names().collect::<Vec<_>>().join("|")))
            }
            Kind::Cpus { all } => {
                let list = spaced(&cpus());
                let number = json!({"type": "integer", "minimum": 0, "maximum": MAX_CPUS - 1});
                let word = all.then(|| json!({"enum": ["all"]}));
                any([number].into_iter().chain(word).chain([list]))
            }
            Kind::Octal => any([json!({"type": "integer", "minimum": 0, "maximum": 777}), text("(0o)?0*[0-7]{1,3}")]),
            Kind::Policy => self.definition("policy", |writer| writer.policy()),
            Kind::Settings => self.definition("settings of a policy", |_| settings(None)),
            Kind::Power => self.definition("power policy", |writer| writer.power()),
            Kind::Step => self.definition("step", |writer| writer.step()),
            Kind::Process => self.definition("process", |writer| {
                let keys = writer.with_stale(&process());
                any([json!({"type": SINGLE, "pattern": r"\S", "description": "its `cmd`"}), keys])
            }),
            Kind::Partition => self.definition("partition", |writer| {
                let processes = writer.kind(&Kind::List { of: &Kind::Process, empty: false });
                any([writer.with_stale(&partition()), processes])
            }),
            Kind::Variables => json!({
                "type": "object",
                "propertyNames": {"pattern": "^[^=]+$", "not": {"pattern": "^TAKT_"}},
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
            }),
            Kind::Limits => {
                let limits: Map<String, Value> =
                    LIMITS.into_iter().map(|name| (name.to_owned(), limit(name))).collect();
                json!({"type": "object", "properties": limits, "additionalProperties": false})
            }
            Kind::ByCpus(of) => {
                let of = self.kind(of);
                json!({"type": "object", "propertyNames": spaced(&cpus()), "additionalProperties": of})
            }
            Kind::ByName(of) => {
                let of = self.kind(of);
                json!({"type": "object", "additionalProperties": of})
            }
            Kind::Map { name, keys } => {
                let drivers = ALL.iter().any(|(table, _)| *table == name && has_drivers(table));
                self.definition(name, |writer| writer.object(keys, drivers))
            }
            Kind::One { name, keys } => self.definition(name, |writer| writer.one(keys)),
            Kind::List { of, empty } => {
                let items = self.kind(of);
                match empty {
                    true => json!({"type": ["array", "null"], "items": items}),
                    false => json!({"type": "array", "items": items, "minItems": 1}),
                }
            }
            Kind::Pair(of) => {
                let of = of.map(|kind| self.kind(&kind));
                // `items: false` would refuse every entry where `prefixItems` is not known, as in the drafts before 2020-12.
                json!({"type": "array", "prefixItems": of, "minItems": 2, "maxItems": 2})
            }
            Kind::Either(kinds) => {
                let default = kinds.iter().find_map(|kind| match kind {
                    Kind::Word { default, .. } => *default,
                    _ => None,
                });
                let mut all: Vec<Value> = kinds.iter().map(|kind| self.kind(kind)).collect();
                all.iter_mut().filter_map(Value::as_object_mut).for_each(|schema| drop(schema.remove("default")));
                let mut schema = any(all);
                if let Some(default) = default {
                    schema["default"] = json!(default);
                }
                schema
            }
        }
    }

    /// A mapping with exactly one of these keys.
    fn one(&mut self, keys: &[Key]) -> Value {
        let mut object = self.object(keys, false);
        object["minProperties"] = json!(1);
        object["maxProperties"] = json!(1);
        object
    }

    /// A mapping with keys of a process.
    fn with_stale(&mut self, keys: &[Key]) -> Value {
        let mut object = self.object(keys, true);
        for key in STALE {
            object["properties"][key] = json!({"description": "no effect: an old key of DEmOS", "deprecated": true});
        }
        object
    }

    fn step(&mut self) -> Value {
        let mut all = Vec::new();
        for key in STEP {
            let argument = match self.kind(&key.kind) {
                Value::Object(kind) if kind.get("type") == Some(&json!("null")) => String::new(),
                Value::Object(kind) => match kind.get("pattern").and_then(Value::as_str) {
                    Some(pattern) => format!(r"\s+{}", pattern.trim_start_matches('^').trim_end_matches('$')),
                    None => String::new(),
                },
                _ => String::new(),
            };
            let mut step = match key.kind {
                Kind::Name => text(&format!(r"\s*{}\s+\S.*", key.name)),
                _ => text(&format!(r"\s*{}{argument}\s*", key.name)),
            };
            step["description"] = json!(format!("`{}`: {}", key.name, key.meaning));
            all.push(step);
        }
        all.push(self.one(&STEP));
        any(all)
    }

    fn policy(&mut self) -> Value {
        let mut names: Vec<String> = Vec::new();
        for (prefix, name) in registry().names() {
            for name in [name.to_owned(), format!("{prefix}{name}")] {
                if registry().spec(&name).is_some() && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let with_settings = spaced(&format!(r"({})\s*(:.*)?", names.join("|")));
        let module = json!({"type": "string", "pattern": r"\.wasm\s*(:.*)?$"});
        let name = any([json!({"enum": names}), module.clone()]);
        any([json!({"enum": names}), with_settings, module, settings(Some(name))])
    }

    fn power(&mut self) -> Value {
        let registry = power_registry();
        let names: Vec<&str> = registry.entries().map(|entry| entry.profile.name).collect();
        let called = registry
            .entries()
            .flat_map(|entry| [entry.profile.name].into_iter().chain(entry.profile.aliases.iter().copied()));
        let any_case = called.map(insensitive).collect::<Vec<_>>().join("|");
        let mut properties = Map::new();
        for parameter in registry.entries().flat_map(|entry| entry.profile.parameters) {
            let one = match parameter.kind {
                ArgumentKind::Choice(words) => any([json!({"enum": words}), json!({"type": SINGLE})]),
                _ => json!({"type": SINGLE}),
            };
            let several = json!({"type": "array", "items": {"type": SINGLE}});
            let mut schema = any([one, several]);
            schema["description"] = json!(plain(parameter.summary));
            properties.entry(parameter.name).or_insert(schema);
        }
        properties.insert("name".into(), any([json!({"enum": names}), spaced(&format!("({any_case})"))]));
        let object =
            json!({"type": "object", "properties": properties, "required": ["name"], "additionalProperties": false});
        any([json!({"enum": names}), spaced(&format!(r"({any_case})\s*(:.*)?")), object])
    }
}

/// A mapping of settings: those of all policies, beside the name of one; or without a name, and each possibly `default`.
fn settings(name: Option<Value>) -> Value {
    let mut properties = Map::new();
    let known = registry().entries().flat_map(|entry| entry.profile.settings).chain([&CLUSTER, &MAPPER]);
    for setting in known {
        let own = setting_kind(setting);
        let kinds = properties.entry(setting.name).or_insert_with(|| {
            let first: Vec<Value> = if name.is_none() { vec![json!({"enum": ["default"]})] } else { Vec::new() };
            let mut schema = any(first);
            schema["description"] = json!(format!("{}; by default {}", plain(setting.summary), plain(setting.default)));
            schema
        });
        if let Some(kinds) = kinds["anyOf"].as_array_mut().filter(|kinds| !kinds.contains(&own)) {
            kinds.push(own);
        }
    }
    // A policy from a file has a setting that no policy of the registry has.
    properties
        .entry("fallback")
        .or_insert_with(|| json!({"type": SINGLE, "description": "takes over when the module fails"}));
    let mut object =
        json!({"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1});
    if let Some(name) = name {
        object["properties"]["name"] = name;
        object["required"] = json!(["name"]);
    }
    object
}

fn setting_kind(setting: &Setting) -> Value {
    match setting.kind {
        SettingKind::Duration(..) => {
            spaced(&format!(r"-?{DECIMAL}\s*({})", units_of_time().collect::<Vec<_>>().join("|")))
        }
        SettingKind::Ratio(..) => any([json!({"type": "number"}), spaced(&format!(r"-?{DECIMAL}\s*%?"))]),
        SettingKind::Count(..) => any([json!({"type": "integer"}), spaced("[-+]?[0-9]+")]),
        SettingKind::Choice(words) => {
            let truths = [("yes", true), ("no", false)].into_iter().filter(|(word, _)| words.contains(word)).map(truth);
            any([json!({"enum": words})].into_iter().chain(truths))
        }
    }
}

/// The values of a limit: a number, `unlimited`, or two of them.
fn limit(name: &str) -> Value {
    let unit = if LIMITS_IN_BYTES.contains(&name) { "[KMG]?" } else { "" };
    let one = format!(r"\s*([0-9]+{unit}|unlimited)\s*");
    any([json!({"type": "integer", "minimum": 0}), text(&format!("{one}(:{one})?"))])
}

/// The meaning of a key, its values, and its use in each driver, without Markdown's links.
fn description(key: &Key, drivers: bool) -> String {
    // The only slice of a window has the keys of a slice, which the manual explains there.
    let slice = || ALL.iter().filter(|(table, _)| *table == "slice").flat_map(|(_, keys)| *keys);
    let key = if key.meaning.is_empty() { slice().find(|other| other.name == key.name).unwrap_or(key) } else { key };
    let meaning = plain(key.meaning);
    let mut text = meaning.trim_end_matches([' ', '.']).to_owned();
    text.push('.');
    let values = plain(&key.values());
    if !values.is_empty() {
        text.push_str(&format!("\nValue: {values}."));
    }
    if drivers {
        text.push_str(&format!("\n`takt sim` {}; `takt run` {}.", used(key.simulation), used(key.run)));
    }
    text
}

/// The treatment of a key by a driver, in words.
fn used(by: Use) -> &'static str {
    match by {
        Use::Honoured => "carries it out",
        Use::OtherSide => "does not need it",
        Use::Ignored => "ignores it with a warning",
        Use::InPart => "carries it out in partitions with a policy",
        Use::Differs => "refuses it",
        Use::Depends => "carries it out, or reports that it does not",
    }
}

/// Text of the manual without links, bold type and the marks of its tables.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        match link.split_once("](").and_then(|(name, target)| Some((name, target.split_once(')')?.1))) {
            Some((name, after)) => {
                text.push_str(name);
                rest = after;
            }
            None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text.replace("**", "").replace(" *S*", "").replace(" *R*", "")
}

/// Any of these.
fn any(schemas: impl IntoIterator<Item = Value>) -> Value {
    json!({"anyOf": schemas.into_iter().collect::<Vec<_>>()})
}

/// A number from zero, or above it.
fn above(zero: bool) -> Value {
    if zero { json!({"type": "number", "minimum": 0}) } else { json!({"type": "number", "exclusiveMinimum": 0}) }
}

/// A text that is an example of a regular expression.
fn text(pattern: &str) -> Value {
    json!({"type": "string", "pattern": format!("^{pattern}$")})
}

/// The same with spaces around it.
fn spaced(pattern: &str) -> Value {
    text(&format!(r"\s*{pattern}\s*"))
}

/// The words of YAML 1.1 for `yes` or `no`, and the value of YAML 1.2.
fn truth((word, value): (&str, bool)) -> Value {
    let words: [&str; 3] = if word == "yes" { ["y", "true", "on"] } else { ["n", "false", "off"] };
    let all = [word].into_iter().chain(words).map(insensitive).collect::<Vec<_>>().join("|");
    json!({"anyOf": [{"const": value}, {"type": "string", "pattern": format!("^({all})$")}]})
}

/// A regular expression of the word in any case of its letters.
fn insensitive(word: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    word.chars().map(letter).collect()
}

/// A regular expression of a list of CPUs as the kernel writes it, with strides.
fn cpus() -> String {
    let number = format!(r"\s*0*{}\s*", up_to(MAX_CPUS as u64 - 1));
    let part = format!(r"{number}(-{number}(:\s*0*[1-9][0-9]*\s*)?)?");
    format!("{part}(,{part})*")
}

/// A regular expression of the whole numbers from 0 to `most` in decimal digits.
fn up_to(most: u64) -> String {
    let digits = most.to_string();
    let mut all = Vec::new();
    for length in 1..digits.len() {
        all.push(if length == 1 { "[0-9]".to_owned() } else { format!("[1-9][0-9]{{{}}}", length - 1) });
    }
    for (at, digit) in digits.bytes().map(|byte| byte - b'0').enumerate() {
        let least = u8::from(at == 0 && digits.len() > 1);
        let rest = digits.len() - at - 1;
        if digit > least {
            all.push(format!("{}[{least}-{}][0-9]{{{rest}}}", &digits[..at], digit - 1));
        }
    }
    all.push(digits);
    format!("({})", all.join("|"))
}

/// The same from 1.
fn from_one(most: u64) -> String {
    up_to(most).replacen("([0-9]", "([1-9]", 1)
}
