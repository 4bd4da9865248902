//! The key `platform`: the clusters of a machine with their frequencies, what they draw, and how warm that makes it.

use crate::MAX_ENTRIES;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{CLUSTER, NODE, PLATFORM_KEYS, POINT, THERMAL, names};
use crate::node::{self, Entry, Node, Place};
use crate::quantity::{CAPACITANCE, CAPACITY, CURRENT, POWER, Quantity, RESISTANCE, VOLTAGE};
use crate::reader::{Bare, Cpus, Reader, bounded};
use crate::text::clipped;
use crate::value::{BadNumber, choices, nearest, number_fault, parse_decimal, parse_ratio};
use std::fmt::Write;
use takt_core::cpus::CpuSet;
use takt_core::power::{ClusterPower, FrequencyDomain, Model, OperatingPoint, Platform, ThermalNode};
use takt_core::time::Span;
use takt_core::work::Speed;

const HINT: &str = "write `platform: {clusters: [{name: a53, cpus: 0-3, capacitance: 100pF, frequencies: [{mhz: 600, voltage: 0.9V}]}]}`, or \
                    the name of a file with such a mapping";

/// No CPU draws more than a megawatt; in nanowatts.
const MOST_NW: u128 = 1_000_000_000_000_000;

/// A frequency of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RawPoint {
    khz: u32,
    uv: i64,
    speed: Speed,
}

/// A cluster as it is described.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Cluster {
    name: String,
    cpus: CpuSet,
    points: Vec<RawPoint>,
    capacitance_ff: i64,
    leakage_na: i64,
    node: usize,
}

/// A machine as the key `platform` describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    clusters: Vec<Cluster>,
    base_nw: i64,
    outside_nw: i64,
    nodes: Vec<ThermalNode>,
    ambient: i32,
    sample: Span,
}

impl Description {
    /// The machine for power policies, in a simulation.
    #[must_use]
    pub fn platform(&self) -> Platform {
        let domain = |cluster: &Cluster| FrequencyDomain {
            name: cluster.name.clone(),
            cpus: cluster.cpus,
            points: cluster.points.iter().map(|p| OperatingPoint { khz: p.khz, speed: p.speed }).collect(),
        };
        Platform {
            domains: self.clusters.iter().map(domain).collect(),
            zones: self.nodes.iter().map(|node| node.name.clone()).collect(),
            simulated: true,
        }
    }

    /// Its power: C·V²·f for a busy CPU, and V·I for the leakage of each CPU at any time.
    #[must_use]
    pub fn model(&self) -> Model {
        let cluster = |cluster: &Cluster| {
            // fF × µV² × kHz are 10^-24 W, nA × µV are 10^-15 W.
            let idle = |p: &RawPoint| (cluster.leakage_na as u128 * p.uv as u128 / 1_000_000) as u64;
            let busy = |p: &RawPoint| {
                let dynamic = cluster.capacitance_ff as u128 * (p.uv as u128).pow(2) * u128::from(p.khz);
                idle(p) + (dynamic / 1_000_000_000_000_000).min(MOST_NW) as u64
            };
            ClusterPower {
                busy_nw: cluster.points.iter().map(busy).collect(),
                idle_nw: cluster.points.iter().map(idle).collect(),
                node: cluster.node,
            }
        };
        Model {
            clusters: self.clusters.iter().map(cluster).collect(),
            base_nw: self.base_nw as u64,
            outside_nw: self.outside_nw as u64,
            nodes: self.nodes.clone(),
            ambient: self.ambient,
            sample: self.sample,
        }
    }

    /// The description as the value of the key `platform`, in one line.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut out = String::from("{clusters: [");
        for (n, c) in self.clusters.iter().enumerate() {
            let between = if n > 0 { ", " } else { "" };
            let _ = write!(
                out,
                "{between}{{name: {:?}, cpus: \"{}\", capacitance: {}pF, leakage: {}uA, ",
                c.name,
                c.cpus,
                decimal(c.capacitance_ff, 3),
                decimal(c.leakage_na, 3)
            );
            if let Some(node) = self.nodes.get(c.node) {
                let _ = write!(out, "node: {:?}, ", node.name);
            }
            out += "frequencies: [";
            for (k, p) in c.points.iter().enumerate() {
                let between = if k > 0 { ", " } else { "" };
                let _ = write!(
                    out,
                    "{between}{{mhz: {}, voltage: {}V, speed: {}}}",
                    decimal(p.khz.into(), 3),
                    decimal(p.uv, 6),
                    decimal(p.speed.millionths().into(), 6)
                );
            }
            out += "]}";
        }
        let _ = write!(
            out,
            "], base: {}W, outside: {}W, sample: {}",
            decimal(self.base_nw, 9),
            decimal(self.outside_nw, 9),
            self.sample
        );
        if !self.nodes.is_empty() {
            let _ = write!(out, ", thermal: {{ambient: {}, nodes: [", decimal(self.ambient.into(), 3));
            for (n, node) in self.nodes.iter().enumerate() {
                let between = if n > 0 { ", " } else { "" };
                let _ = write!(
                    out,
                    "{between}{{name: {:?}, capacity: {}J/K, initial: {}",
                    node.name,
                    decimal(node.capacity_mj as i64, 3),
                    decimal(node.initial.into(), 3)
                );
                if let Some(ambient) = node.ambient_mk {
                    let _ = write!(out, ", ambient: {}K/W", decimal(ambient as i64, 3));
                }
                if !node.links.is_empty() {
                    let link =
                        |(to, mk): &(usize, u64)| format!("{:?}: {}K/W", self.nodes[*to].name, decimal(*mk as i64, 3));
                    let _ = write!(out, ", links: {{{}}}", node.links.iter().map(link).collect::<Vec<_>>().join(", "));
                }
                out.push('}');
            }
            out += "]}";
        }
        out.push('}');
        out
    }
}

/// A number of the smallest unit as a decimal of one that is 10^`digits` of it.
fn decimal(value: i64, digits: u32) -> String {
    let scale = 10_u64.pow(digits);
    let sign = if value < 0 { "-" } else { "" };
    let value = value.unsigned_abs();
    let text = format!("{sign}{}.{:0width$}", value / scale, value % scale, width = digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads the value of the key `platform`: a mapping, or the name of a file with one.
pub(crate) fn read(reader: &mut Reader, entry: &Entry) -> Option<Description> {
    let node = &entry.value;
    if matches!(node.kind, node::Kind::Map(_)) {
        return mapping(reader, node);
    }
    let name = reader.text(node, "platform", "a mapping, or the name of a file")?;
    from_file(reader, &name, &node.span)
}

fn from_file(reader: &mut Reader, name: &str, place: &Place) -> Option<Description> {
    let shown = clipped(name);
    let source = match reader.file(name) {
        Ok(source) => source,
        Err(unreadable) => {
            let why = unreadable.diagnostic.message.rsplit(": ").next().unwrap_or("").to_owned();
            reader.push(
                Diagnostic::error(Code::UnreadableFile, place, format!("the platform `{shown}` cannot be read"))
                    .label(why)
                    .hint("a relative name is looked for in the directory of the workload"),
            );
            return None;
        }
    };
    let mut inside = Reader::default();
    let read = match node::parse(&source.text) {
        Ok((root, faults)) => {
            inside.diagnostics = faults;
            let node = root.get("platform").map_or(&root, |entry| &entry.value);
            mapping(&mut inside, node)
        }
        Err(fault) => {
            inside.push(fault);
            None
        }
    };
    let sound = inside.diagnostics.is_empty();
    for fault in inside.diagnostics {
        let line = 1 + source.text.get(..fault.span.start).map_or(0, |text| text.matches('\n').count());
        let mut placed = Diagnostic {
            severity: fault.severity,
            ..Diagnostic::error(fault.code, place, format!("{shown}:{line}: {}", fault.message))
        };
        placed.label = fault.label;
        placed.hint = fault.hint;
        reader.push(placed);
    }
    read.filter(|_| sound)
}

fn mapping(reader: &mut Reader, node: &Node) -> Option<Description> {
    let faults = reader.diagnostics.len();
    if !reader.is_map(node, "`platform`", HINT) {
        return None;
    }
    reader.keys(node, "a platform", &names(&PLATFORM_KEYS));
    let (ambient, nodes) = node.get("thermal").map_or((0, Vec::new()), |entry| thermal(reader, &entry.value));
    let list = reader.required(node, "a platform", "clusters", "no CPUs with frequencies", HINT)?;
    let items = bounded(reader, &list.value, "clusters", HINT, MAX_ENTRIES)?;
    let mut clusters: Vec<Cluster> = Vec::new();
    for item in items {
        let Some(cluster) = cluster(reader, item, &nodes) else { continue };
        if let Some(other) =
            clusters.iter().find(|other| !other.cpus.is_disjoint(&cluster.cpus) || other.name == cluster.name)
        {
            let message = format!("the clusters `{}` and `{}` share a CPU or their name", other.name, cluster.name);
            let hint = "give each CPU to one cluster, and each cluster a name of its own";
            reader.push(Diagnostic::error(Code::CpuOverlap, &item.head(), message).label("the second one").hint(hint));
        }
        clusters.push(cluster);
    }
    if items.is_empty() {
        let message = "a platform without clusters has no CPUs";
        reader.push(Diagnostic::error(Code::EmptyValue, &list.key_span, message).label("an empty list").hint(HINT));
    }
    let power = |reader: &mut Reader, key: &str| {
        node.get(key).and_then(|entry| quantity(reader, &entry.value, key, &POWER, true)).unwrap_or(0)
    };
    let (base_nw, outside_nw) = (power(reader, "base"), power(reader, "outside"));
    let sample = node.get("sample").and_then(|entry| reader.span(&entry.value, "sample", Bare::Refused, false));
    let description =
        Description { clusters, base_nw, outside_nw, nodes, ambient, sample: sample.unwrap_or(Span::from_ms(100)) };
    slow_enough(reader, node, &description);
    (reader.diagnostics.len() == faults).then_some(description)
}

/// The time constants of thermal nodes must not be far below the period of samples, or the integration would need too many steps.
fn slow_enough(reader: &mut Reader, node: &Node, description: &Description) {
    const PART: i128 = 1000;
    let nodes = &description.nodes;
    for (index, own) in nodes.iter().enumerate() {
        let others = nodes.iter().flat_map(|other| &other.links).filter(|(to, _)| *to == index).map(|(_, mk)| *mk);
        let ways = own.links.iter().map(|(_, mk)| *mk).chain(own.ambient_mk).chain(others);
        // In 10^-12 W/K; millijoules per kelvin over that are 10^9 s.
        let conductance: i128 = ways.map(|mk| 1_000_000_000_000_000 / i128::from(mk.max(1))).sum();
        let constant_ns = i128::from(own.capacity_mj) * 1_000_000_000_000_000_000 / conductance.max(1);
        if constant_ns * PART < i128::from(description.sample.ns()) {
            let place = node.get("thermal").map_or(node.head(), |entry| entry.key_span.clone());
            let message = format!("the thermal node `{}` warms up in far less than a period of samples", own.name);
            reader.push(
                Diagnostic::error(Code::OutOfRange, &place, message)
                    .label(format!("its time constant is {} ns", constant_ns))
                    .hint("raise its `capacity` or its resistances, or lower `sample`"),
            );
        }
    }
}

fn cluster(reader: &mut Reader, node: &Node, nodes: &[ThermalNode]) -> Option<Cluster> {
    if !reader.is_map(node, "a cluster", HINT) {
        return None;
    }
    reader.keys(node, "a cluster", &names(&CLUSTER));
    let cpus = reader.required(node, "a cluster", "cpus", "whose frequencies are these?", "add `cpus: 0-3`")?;
    let Cpus::Set(cpus) = reader.cpus(&cpus.value, "cpus")? else {
        let message = "a cluster names its CPUs by number";
        reader.push(
            Diagnostic::error(Code::WrongType, &cpus.value.span, message).label("`all`").hint("write `cpus: 0-3`"),
        );
        return None;
    };
    let name = match node.get("name") {
        Some(entry) => reader.text(&entry.value, "name", "a name")?,
        None => format!("cpu{}", cpus.iter().next().unwrap_or(0)),
    };
    let hint = "write the effective switched capacitance of one busy CPU, as in `capacitance: 100pF`";
    let capacitance = reader.required(node, "a cluster", "capacitance", "its CPUs would draw nothing", hint)?;
    let capacitance_ff = quantity(reader, &capacitance.value, "capacitance", &CAPACITANCE, true)?;
    let leakage = node.get("leakage").map(|entry| quantity(reader, &entry.value, "leakage", &CURRENT, true));
    let leakage_na = leakage.unwrap_or(Some(0))?;
    let highest = match node.get("speed") {
        Some(entry) => speed(reader, &entry.value)?,
        None => Speed::NOMINAL,
    };
    let list = reader.required(node, "a cluster", "frequencies", "at which frequencies can it run?", HINT)?;
    let items = bounded(reader, &list.value, "frequencies", HINT, MAX_ENTRIES)?;
    let mut raw: Vec<(u32, i64, Option<Speed>)> = Vec::new();
    for item in items {
        if !reader.is_map(item, "a frequency", "write it as in `{mhz: 600, voltage: 0.9V}`") {
            continue;
        }
        reader.keys(item, "a frequency", &names(&POINT));
        let example = "write it as in `{mhz: 600, voltage: 0.9V}`";
        let mhz = reader.required(item, "a frequency", "mhz", "no frequency here", example);
        let voltage = "the power of a CPU goes with the square of its voltage: write it as in `voltage: 0.9V`";
        let volts = reader.required(item, "a frequency", "voltage", "what it draws here is unknown", voltage);
        let (Some(mhz), Some(volts)) = (mhz, volts) else { continue };
        let khz = megahertz(reader, &mhz.value);
        let uv = quantity(reader, &volts.value, "voltage", &VOLTAGE, false);
        let own = item.get("speed").map(|entry| speed(reader, &entry.value));
        if let (Some(khz), Some(uv), Some(own)) = (khz, uv, own.map_or(Some(None), |own| own.map(Some))) {
            raw.push((khz, uv, own));
        }
    }
    if raw.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        let message = "the frequencies of a cluster are not in ascending order";
        reader.push(
            Diagnostic::error(Code::NotAscending, &list.key_span, message)
                .label("of this list")
                .hint("sort them, each once"),
        );
        return None;
    }
    let Some(&(most, ..)) = raw.last() else {
        if items.is_empty() {
            let message = "a cluster has no frequency";
            reader.push(Diagnostic::error(Code::EmptyValue, &list.key_span, message).label("an empty list").hint(HINT));
        }
        return None;
    };
    let in_proportion = |khz: u32| (u64::from(highest.millionths()) * u64::from(khz) / u64::from(most)).max(1) as u32;
    let point = |(khz, uv, own): (u32, i64, Option<Speed>)| {
        let speed = own.or_else(|| Speed::from_millionths(in_proportion(khz))).unwrap_or_default();
        RawPoint { khz, uv, speed }
    };
    let heats = node.get("node").map(|entry| (reader.text(&entry.value, "node", "a thermal node"), entry));
    let node = match heats {
        None => 0,
        Some((name, entry)) => node_index(reader, nodes, &name?, &entry.value.span)?,
    };
    Some(Cluster { name, cpus, points: raw.into_iter().map(point).collect(), capacitance_ff, leakage_na, node })
}

fn node_index(reader: &mut Reader, nodes: &[ThermalNode], name: &str, place: &Place) -> Option<usize> {
    let index = nodes.iter().position(|node| node.name == name);
    if index.is_none() {
        let names = || nodes.iter().map(|node| node.name.as_str());
        let label = nearest(name, names()).map_or("not described".to_owned(), |near| format!("did you mean `{near}`?"));
        let hint = match nodes.is_empty() {
            true => "add `thermal` with `nodes`".to_owned(),
            false => format!("the nodes are {}", choices(names(), "and")),
        };
        let message = format!("there is no thermal node `{}`", clipped(name));
        reader.push(Diagnostic::error(Code::UnknownName, place, message).label(label).hint(hint));
    }
    index
}

fn thermal(reader: &mut Reader, node: &Node) -> (i32, Vec<ThermalNode>) {
    let hint = "write `thermal: {ambient: 25, nodes: [{name: soc, capacity: 4J/K, ambient: 7.5K/W}]}`";
    if !reader.is_map(node, "`thermal`", hint) {
        return (0, Vec::new());
    }
    reader.keys(node, "`thermal`", &names(&THERMAL));
    let ambient = reader.required(node, "`thermal`", "ambient", "how warm are the surroundings?", hint);
    let ambient = ambient.and_then(|entry| degrees(reader, &entry.value, "ambient"));
    let Some(list) = reader.required(node, "`thermal`", "nodes", "nothing to be warm", hint) else {
        return (0, Vec::new());
    };
    let ambient = ambient.unwrap_or(25_000);
    let items = bounded(reader, &list.value, "nodes", hint, MAX_ENTRIES).unwrap_or_default();
    let mut nodes: Vec<ThermalNode> = Vec::new();
    let mut links: Vec<(usize, String, u64, Place)> = Vec::new();
    for item in items {
        if !reader.is_map(item, "a thermal node", hint) {
            continue;
        }
        reader.keys(item, "a thermal node", &names(&NODE));
        let name = match item.get("name") {
            Some(entry) => reader.text(&entry.value, "name", "a name").unwrap_or_default(),
            None => format!("node{}", nodes.len()),
        };
        let capacity =
            reader.required(item, "a thermal node", "capacity", "it would have no temperature", "add `capacity: 4J/K`");
        let capacity = capacity.and_then(|entry| quantity(reader, &entry.value, "capacity", &CAPACITY, false));
        let to_ambient = item.get("ambient");
        let to_ambient = to_ambient.and_then(|entry| quantity(reader, &entry.value, "ambient", &RESISTANCE, false));
        let initial = item.get("initial").and_then(|entry| degrees(reader, &entry.value, "initial"));
        let links_of = item.get("links").filter(|entry| reader.is_map(&entry.value, "`links`", hint));
        for link in links_of.into_iter().flat_map(|entry| entry.value.entries()) {
            if let Some(mk) = quantity(reader, &link.value, &link.key, &RESISTANCE, false) {
                links.push((nodes.len(), link.key.clone(), mk as u64, link.key_span.clone()));
            }
        }
        nodes.push(ThermalNode {
            name,
            capacity_mj: capacity.unwrap_or(1_000_000) as u64,
            ambient_mk: to_ambient.map(|mk| mk as u64),
            links: Vec::new(),
            initial: initial.unwrap_or(ambient),
        });
    }
    for (from, to, mk, place) in links {
        match node_index(reader, &nodes, &to, &place) {
            Some(to) if to != from => nodes[from].links.push((to, mk)),
            Some(_) => {
                let message = format!("the thermal node `{}` is linked with itself", nodes[from].name);
                reader.push(
                    Diagnostic::error(Code::WrongType, &place, message).label("heat goes nowhere").hint("remove it"),
                );
            }
            None => {}
        }
    }
    reaches_ambient(reader, &nodes, items);
    (ambient, nodes)
}

/// Heat must leave each node in the end.
fn reaches_ambient(reader: &mut Reader, nodes: &[ThermalNode], items: &[std::rc::Rc<Node>]) {
    let mut reached: Vec<bool> = nodes.iter().map(|node| node.ambient_mk.is_some()).collect();
    loop {
        let before = reached.clone();
        for (index, node) in nodes.iter().enumerate() {
            for &(other, _) in &node.links {
                let both = reached[index] || reached[other];
                (reached[index], reached[other]) = (both, both);
            }
        }
        if before == reached {
            break;
        }
    }
    if let Some(index) = reached.iter().position(|reached| !reached)
        && let Some(item) = items.get(index)
    {
        let message = format!("no heat leaves the thermal node `{}`", nodes[index].name);
        reader.push(
            Diagnostic::error(Code::MissingKey, &item.head(), message)
                .label("it has no way to the ambient")
                .hint("add `ambient: 7.5K/W` to it, or `links` to a node that has a way"),
        );
    }
}

fn megahertz(reader: &mut Reader, node: &Node) -> Option<u32> {
    let text = reader.scalar(node, "mhz", "a number of megahertz")?;
    let khz = parse_decimal(text, 1000).ok().and_then(|khz| u32::try_from(khz.ns()).ok()).filter(|khz| *khz > 0);
    if khz.is_none() {
        let message = "`mhz` must be a number of megahertz above zero, with at most three decimals";
        reader.push(Diagnostic::error(Code::WrongType, &node.span, message).label("not such a number"));
    }
    khz
}

fn degrees(reader: &mut Reader, node: &Node, key: &str) -> Option<i32> {
    let text = reader.scalar(node, key, "a temperature in degrees Celsius")?;
    let value = parse_decimal(text.trim(), 1000).ok().map(Span::ns).filter(|value| (-40_000..=150_000).contains(value));
    if value.is_none() {
        let message = format!("`{key}` must be a temperature from -40 to 150 degrees Celsius");
        reader.push(Diagnostic::error(Code::OutOfRange, &node.span, message).label("not such a number"));
    }
    value.map(|value| value as i32)
}

fn speed(reader: &mut Reader, node: &Node) -> Option<Speed> {
    let text = reader.scalar(node, "speed", "a speed such as `0.5`")?;
    let hint =
        "write the work of a CPU per time, relative to the CPU for which runtimes are declared, as in `speed: 0.5`";
    let fault = match parse_ratio(text) {
        Ok(value @ 1..=1_000_000_000) => return Speed::from_millionths(value as u32),
        Ok(value) if value <= 0 => (Code::OutOfRange, "at this speed no job would ever end".to_owned()),
        Ok(_) => (Code::OutOfRange, "above 1000".to_owned()),
        Err(why) => (Code::WrongType, why),
    };
    reader.push(Diagnostic::error(fault.0, &node.span, "`speed` must be above zero").label(fault.1).hint(hint));
    None
}

/// Reads a number with one of the units, in the smallest unit.
fn quantity(reader: &mut Reader, node: &Node, key: &str, of: &Quantity, zero: bool) -> Option<i64> {
    let text = reader.scalar(node, key, &format!("a {} such as `{}`", of.called, of.example))?.trim();
    // At most a thousand of the largest unit, so that no product overflows.
    let most = 1_000 * of.units.last().map_or(1, |(_, scale)| *scale);
    let unit = of.units.iter().filter(|(unit, _)| text.ends_with(unit)).max_by_key(|(unit, _)| unit.len());
    let result = match unit {
        None => Err((Code::MissingUnit, format!("write a unit, as in `{}`", of.example))),
        Some((unit, scale)) => match parse_decimal(text[..text.len() - unit.len()].trim_end(), *scale).map(Span::ns) {
            Ok(value) if value < 0 || value == 0 && !zero => Err((Code::OutOfRange, "not above zero".to_owned())),
            Ok(value) if value > most => Err((Code::OutOfRange, "too large".to_owned())),
            Ok(value) => Ok(value),
            Err(BadNumber::TooFine) => Err((Code::WrongType, "too many decimals".to_owned())),
            Err(fault) => Err((Code::WrongType, number_fault(fault, text))),
        },
    };
    match result {
        Ok(value) => Some(value),
        Err((code, label)) => {
            reader.push(
                Diagnostic::error(
                    code,
                    &node.span,
                    format!("`{key}` must be a {} such as `{}`", of.called, of.example),
                )
                .label(label)
                .hint(format!("its units are {}", choices(of.unit_names(), "and"))),
            );
            None
        }
    }
}
