//! YAML texts of other forms than a workload: a tree that knows its places, and typed access to it.

pub use crate::node::{Entry, Kind, Node, Place};
pub use crate::reader::Reader;

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node;
use std::rc::Rc;

/// Reads one document for a [`Reader`] with the faults that leave a usable tree. `empty` is the hint about a text without a value.
///
/// # Errors
/// The fault that leaves no tree.
pub fn parse(text: &str, empty: &str) -> Result<(Rc<Node>, Reader), Diagnostic> {
    let (root, faults) = node::parse(text).map_err(|fault| match fault.code {
        Code::NothingToSchedule => Diagnostic { code: Code::EmptyValue, ..fault }.hint(empty),
        _ => fault,
    })?;
    let mut reader = Reader::default();
    faults.into_iter().for_each(|fault| reader.push(fault));
    Ok((root, reader))
}
