//! `servers`: servers for aperiodic work that several tasks share, each by its name.

use crate::MAX_ENTRIES;
use crate::code::Code;
use crate::declared::{Named, Servers};
use crate::diagnostic::{Diagnostic, Severity};
use crate::keys::{SERVER, names};
use crate::node::{Entry, Node};
use crate::reader::{Reader, bounded};
use crate::steps;
use crate::text::clipped;
use crate::value::choices;
use takt_core::model::{Reservation, Server, ServerId};
use takt_core::time::Span;

const KEYS: [&str; SERVER.len()] = names(&SERVER);
const HINT: &str = "write `- {name: requests, budget: 2ms, period: 10ms}` for each";

/// Reads the top level's `servers`, before the tasks that name them.
pub(crate) fn declare(reader: &mut Reader, entry: &Entry) {
    let faults = reader.diagnostics.len();
    let items = bounded(reader, &entry.value, "servers", HINT, MAX_ENTRIES).unwrap_or_default();
    let mut servers = Servers { place: Some(entry.key_span.clone()), ..Servers::default() };
    for node in items {
        let Some(named) = server(reader, node) else { continue };
        match servers.index.get(&named.name) {
            Some(first) => reader.push(
                Diagnostic::error(
                    Code::DuplicateName,
                    &named.place,
                    format!("two servers are called `{}`", clipped(&named.name)),
                )
                .label("the second one")
                .also(&servers.list[first.index()].place, "the first one")
                .hint("give one of them another `name`, or remove it"),
            ),
            None => {
                servers.index.insert(named.name.clone(), ServerId(servers.list.len() as u32));
                servers.list.push(named);
            }
        }
    }
    servers.partial = reader.diagnostics[faults..].iter().any(|d| d.severity == Severity::Error);
    reader.servers = servers;
}

fn server(reader: &mut Reader, node: &Node) -> Option<Named> {
    if !reader.is_map(node, "a server", HINT) {
        return None;
    }
    reader.keys(node, "a server", &KEYS);
    let hint = "add `name: requests`; tasks say by it whose budget they share";
    let entry = reader.required(node, "a server", "name", "in this server", hint);
    let reservation = steps::reserved(reader, node, "a server", HINT);
    let priority = node.get("priority").and_then(|e| reader.whole(&e.value, "priority", u64::from(u32::MAX)));
    let entry = entry?;
    let name = reader.text(&entry.value, "name", "a name")?;
    let place = entry.value.span.clone();
    if !reader.is_name(&name, &place) {
        return None;
    }
    // One whose budget is at fault still has its name, so that tasks find it.
    let reservation = reservation.unwrap_or(Reservation::new(Span::ZERO, Span::ZERO));
    let server = Server { reservation, priority: priority.unwrap_or(0) as u32 };
    Some(Named { name, place, server, used: false })
}

/// Reads the `server` of a task.
pub(crate) fn named(reader: &mut Reader, node: &Node) -> Option<ServerId> {
    let name = reader.scalar(node, "server", "the name of a server")?;
    let servers = &mut reader.servers;
    if let Some(id) = servers.index.get(name) {
        servers.list[id.index()].used = true;
        return Some(*id);
    }
    if !servers.partial {
        let fault =
            Diagnostic::error(Code::UnknownName, &node.span, format!("no server is called `{}`", clipped(name)));
        let names = || reader.servers.list.iter().map(|named| named.name.as_str());
        let fault = match (&reader.servers.place, reader.nearest(name, names())) {
            (_, Some(near)) => fault.label(format!("did you mean `{near}`?")),
            (Some(place), None) => fault.label("not one of them").also(place, "the servers"),
            (None, None) => fault.label("this file has no `servers`"),
        };
        let fault = match names().next() {
            Some(_) => fault.hint(format!("the servers are {}", choices(names(), "and"))),
            None => fault.hint(
                "add `servers: [{name: requests, budget: 2ms, period: 10ms}]` to the file, or give the task a `reservation` of \
                 its own",
            ),
        };
        reader.push(fault);
    }
    None
}

impl Servers {
    /// Those of the system, and their names. An unused one is worth a warning.
    pub(crate) fn build(self, reader: &mut Reader) -> (Vec<Server>, Vec<String>) {
        for Named { name, place, .. } in self.list.iter().filter(|named| !named.used) {
            let fault =
                Diagnostic::warning(Code::UnusedName, place, format!("the server `{}` serves no task", clipped(name)));
            reader.push(
                fault.label("no task uses it").hint(format!("add `server: {name}` to tasks, or remove the server")),
            );
        }
        self.list.into_iter().map(|named| (named.server, named.name)).unzip()
    }
}
