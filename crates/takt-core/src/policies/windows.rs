//! stub
use crate::policy::{Entry, Scope};
use crate::model::Invalid;
/// Its line in the registry.
pub const ENTRY: Entry = Entry { name: "windows", summary: "", manual: "", scopes: &[Scope::Table], needs: &[], build: |_| Err(Invalid::NoCpu) };
