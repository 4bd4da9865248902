//! Descriptions of events and pages, as tracefs gives them in files named `format` and in `events/header_page`.

use std::collections::BTreeMap;
use std::fmt;

/// A description or a page is not of the form that the kernel documents (`Documentation/trace/events.rst`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unexpected(pub String);

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel's trace has another form: {}", self.0)
    }
}

/// Where a field is in its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// The bytes of the field; `None` where the record is shorter.
    pub(super) fn bytes<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The number in the field, with a sign.
    pub(super) fn number(&self, record: &[u8]) -> Option<i64> {
        let bytes = self.bytes(record)?;
        Some(match bytes.len() {
            1 => i64::from(bytes[0] as i8),
            2 => i64::from(i16::from_le_bytes(bytes.try_into().ok()?)),
            4 => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
            8 => i64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

/// The description of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Format {
    pub(super) name: String,
    pub(super) id: u16,
    fields: BTreeMap<String, Field>,
}

impl Format {
    pub(super) fn field(&self, name: &str) -> Result<Field, Unexpected> {
        let missing = || Unexpected(format!("the event `{}` has no field `{name}`", self.name));
        self.fields.get(name).copied().ok_or_else(missing)
    }
}

/// Reads descriptions, one after the other. Each begins with a line `name:`.
pub(super) fn formats(text: &str) -> Result<Vec<Format>, Unexpected> {
    let mut formats: Vec<Format> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("name: ") {
            formats.push(Format { name: name.into(), id: 0, fields: BTreeMap::new() });
        }
        let Some(format) = formats.last_mut() else { continue };
        if let Some(id) = line.strip_prefix("ID: ") {
            format.id = id.parse().map_err(|_| Unexpected(format!("`{line}` is no number of an event")))?;
        }
        if let Some((name, field)) = field(line) {
            format.fields.insert(name, field);
        }
    }
    Ok(formats)
}

/// `field:unsigned short common_type; offset:0; size:2; signed:0;`, with tabs between the parts.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.strip_prefix("field:")?.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?.split('[').next()?.to_owned();
    let number = |part: &str, key: &str| part.strip_prefix(key)?.parse().ok();
    let (offset, size) = (number(parts.next()?, "offset:")?, number(parts.next()?, "size:")?);
    Some((name, Field { offset, size }))
}

/// The head of a page of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) timestamp: Field,
    pub(super) commit: Field,
    /// Where the records begin.
    pub(super) data: usize,
}

impl Head {
    pub(super) fn read(text: &str) -> Result<Head, Unexpected> {
        let fields: BTreeMap<String, Field> = text.lines().filter_map(|line| field(line.trim())).collect();
        let named =
            |name: &str| fields.get(name).copied().ok_or_else(|| Unexpected(format!("pages have no field `{name}`")));
        Ok(Head { timestamp: named("timestamp")?, commit: named("commit")?, data: named("data")?.offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_gives_places_of_fields() {
        let text = "name: sched_switch\nID: 372\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:void * hrtimer;\toffset:24;\tsize:8;\tsigned:0;\n\n\
                    print fmt: \"x\"\nname: other\nID: 7\n";
        let formats = formats(text).unwrap();
        assert_eq!((formats.len(), formats[0].id, &*formats[1].name), (2, 372, "other"));
        assert_eq!(formats[0].field("prev_comm"), Ok(Field { offset: 8, size: 16 }));
        assert_eq!(formats[0].field("hrtimer"), Ok(Field { offset: 24, size: 8 }));
        assert!(formats[1].field("hrtimer").is_err());
        let minus_one = Field { offset: 1, size: 4 };
        assert_eq!(minus_one.number(&[0, 255, 255, 255, 255]), Some(-1));
        assert_eq!(minus_one.number(&[0; 4]), None);
    }
}
