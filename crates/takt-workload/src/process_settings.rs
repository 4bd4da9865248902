//! Keys of a process that take effect before its program begins: `user`, `group`, `env`, `cwd`, `umask`, `limits` and `output`.
//!
//! Whether the machine has such a user or directory is known where the process is started, and not here.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{OUTPUT, names};
use crate::node::{Entry, Kind, Node, Place};
use crate::process::{Output, ProcessSettings, ResourceLimit};
use crate::reader::Reader;
use crate::text::clipped;
use crate::value::{choices, nearest};
use crate::words::{LIMITS, LIMITS_IN_BYTES};

/// The keys, without `output`.
pub(crate) const KEYS: [&str; 6] = ["user", "group", "env", "cwd", "umask", "limits"];

/// Names of variables that begin so are those of Takt.
const OWN: &str = "TAKT_";
/// The highest umask.
const UMASK_MAX: u32 = 0o777;

/// Reads one of [`KEYS`].
pub(crate) fn read(settings: &mut ProcessSettings, reader: &mut Reader, key: &str, value: &Node) {
    match key {
        "user" => settings.user = reader.text(value, key, "the name or number of a user"),
        "group" => settings.group = reader.text(value, key, "the name or number of a group"),
        "env" => settings.env = env(reader, value),
        "cwd" => settings.cwd = reader.text(value, key, "a directory").map(Into::into),
        "umask" => settings.umask = umask(reader, value),
        _ => settings.limits = limits(reader, value),
    }
}

/// Reads the variables of the environment.
fn env(reader: &mut Reader, value: &Node) -> Vec<(String, Option<String>)> {
    if !reader.is_map(value, "`env`", "write `env: {NAME: value}`") {
        return Vec::new();
    }
    let mut variables = Vec::new();
    for entry in value.entries() {
        let (name, place) = (entry.key.as_str(), &entry.key_span);
        let fault = if name.is_empty() || name.contains('=') || name.chars().any(|c| c == '\0' || c.is_control()) {
            let message = format!("`{}` is no name of a variable", clipped(name));
            let fault = Diagnostic::error(Code::InvalidCharacter, place, message);
            Some(fault.label("a name is not empty, and has neither `=` nor control characters"))
        } else if name.starts_with(OWN) {
            let message = format!("`{}` is a variable of Takt", clipped(name));
            let fault = Diagnostic::error(Code::NotSupportedHere, place, message);
            let fault = fault.label("the process finds its scheduler by such variables");
            Some(fault.hint(format!("choose a name that does not begin with `{OWN}`")))
        } else {
            None
        };
        if let Some(fault) = fault {
            reader.push(fault);
            continue;
        }
        variables.extend(variable(reader, entry).map(|value| (name.to_owned(), value)));
    }
    variables
}

/// The value of a variable; the inner `None` removes it.
fn variable(reader: &mut Reader, entry: &Entry) -> Option<Option<String>> {
    if entry.value.is_null() {
        return Some(None);
    }
    let text = reader.scalar(&entry.value, &entry.key, "a text")?;
    if text.contains('\0') {
        let fault = Diagnostic::error(Code::InvalidCharacter, &entry.value.span, "a variable holds a zero byte");
        reader.push(fault.label("no program can be given such a text").hint("remove `\\0`"));
        return None;
    }
    Some(Some(text.to_owned()))
}

/// Reads an octal number.
fn umask(reader: &mut Reader, value: &Node) -> Option<u32> {
    let text = reader.scalar(value, "umask", "an octal number such as `027`")?;
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = digits.bytes().all(|b| b.is_ascii_digit()).then(|| u32::from_str_radix(digits, 8).ok()).flatten();
    let umask = octal.filter(|umask| *umask <= UMASK_MAX);
    if umask.is_none() {
        let code = if octal.is_some() { Code::OutOfRange } else { Code::WrongType };
        let fault = Diagnostic::error(code, &value.span, "`umask` must be an octal number from 0 to 777");
        reader.push(fault.label("not such a number").hint("`umask: 027` keeps new files from other users"));
    }
    umask
}

/// Reads limits by their names.
fn limits(reader: &mut Reader, value: &Node) -> Vec<ResourceLimit> {
    if !reader.is_map(value, "`limits`", "write `limits: {nofile: 1024, core: 0}`") {
        return Vec::new();
    }
    let mut limits = Vec::new();
    for entry in value.entries() {
        let Some(name) = LIMITS.into_iter().find(|name| *name == entry.key) else {
            let message = format!("`{}` is no limit of a process", clipped(&entry.key));
            let fault = Diagnostic::error(Code::UnknownKey, &entry.key_span, message);
            let near =
                nearest(&entry.key, LIMITS).map_or("none of `prlimit`".into(), |n| format!("did you mean `{n}`?"));
            reader.push(fault.label(near).hint(format!("the limits are {}", choices(LIMITS, "and"))));
            continue;
        };
        let Some(text) = reader.scalar(&entry.value, name, "a number, `unlimited`, or `SOFT:HARD`") else { continue };
        let (soft, hard) = text.split_once(':').unwrap_or((text, text));
        let place = &entry.value.span;
        let both = limit(reader, name, soft, place).and_then(|soft| Some((soft, limit(reader, name, hard, place)?)));
        let Some((soft, hard)) = both else { continue };
        if soft.unwrap_or(u64::MAX) > hard.unwrap_or(u64::MAX) {
            let message = format!("the soft limit of `{name}` is above the hard one");
            let fault = Diagnostic::error(Code::OutOfRange, place, message).label("the kernel refuses that");
            reader.push(fault.hint("write the lower number first, as in `512:1024`"));
            continue;
        }
        limits.push(ResourceLimit { name, soft, hard });
    }
    limits
}

/// One number of a limit; the inner `None` is no limit.
fn limit(reader: &mut Reader, name: &str, text: &str, place: &Place) -> Option<Option<u64>> {
    let text = text.trim();
    if text == "unlimited" {
        return Some(None);
    }
    let bytes = LIMITS_IN_BYTES.contains(&name);
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let (digits, shift) = match units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift))) {
        Some((digits, shift)) if bytes => (digits, shift),
        _ => (text, 0),
    };
    let digits = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    // The highest number means no limit to the kernel.
    let number = number.filter(|number| *number < u64::MAX && (name != "rtprio" || *number <= 99));
    if number.is_none() {
        let (expected, hint) = match name {
            "rtprio" => ("a priority from 0 to 99", "`rtprio: 0` keeps the process from a real-time class of its own"),
            _ if bytes => ("a number of bytes, or `unlimited`", "units are K, M and G, as in `64M`"),
            _ => ("a whole number, or `unlimited`", "write `SOFT:HARD` for two limits, as in `512:1024`"),
        };
        let code = if digits.is_some_and(|d| !d.is_empty()) { Code::OutOfRange } else { Code::WrongType };
        let fault = Diagnostic::error(code, place, format!("the limit `{name}` must be {expected}"));
        reader.push(fault.label("not such a number").hint(hint));
    }
    number.map(Some)
}

/// Reads `inherit`, `null`, a path, or `{file: PATH, truncate: yes}`.
pub(crate) fn output(reader: &mut Reader, value: &Node) -> Option<Output> {
    if matches!(value.kind, Kind::Map(_)) {
        reader.keys(value, "`output`", &names(&OUTPUT));
        let hint = "write `{file: PATH, truncate: yes}`";
        let entry = reader.required(value, "`output`", "file", "a mapping here needs a file", hint)?;
        let path = reader.text(&entry.value, "file", "a file name")?.into();
        let truncate = value.get("truncate").and_then(|entry| reader.boolean(&entry.value, "truncate"));
        return Some(Output::File { path, truncate: truncate.unwrap_or(false) });
    }
    match &value.kind {
        Kind::Scalar { text, .. } if text == "null" => Some(Output::Null),
        Kind::Scalar { text, .. } if text == "inherit" => Some(Output::Inherit),
        _ => {
            let path = reader.text(value, "output", "`inherit`, `null`, or a file name")?;
            Some(Output::File { path: path.into(), truncate: false })
        }
    }
}

/// Refuses settings of a process where there is none, and a group without a user. `who` is "task `a`" or "a process".
pub(crate) fn check(reader: &mut Reader, node: &Node, who: &str, process: bool) {
    let given = || KEYS.iter().filter_map(|key| node.get(key));
    if let Some(entry) = given().next().filter(|_| !process) {
        let message = format!("{who} has no process for its `{}`", entry.key);
        let fault = Diagnostic::error(Code::NotSupportedHere, &entry.key_span, message).label("it has no `cmd`");
        reader.push(fault.hint(format!("add `cmd`, or remove `{}`", entry.key)));
    }
    if let Some(entry) = node.get("group").filter(|_| node.get("user").is_none()) {
        let fault = Diagnostic::error(Code::MissingKey, &entry.key_span, format!("{who} has a `group` and no `user`"));
        reader.push(fault.label("a group belongs to a change of the user").hint("add `user`, or remove `group`"));
    }
}
