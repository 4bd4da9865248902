//! stub
use crate::policy::{Entry, Scope};
use crate::model::Invalid;
/// Its line in the registry.
pub const ENTRY: Entry = Entry { name: "rm", summary: "", manual: "", scopes: &[Scope::Uniprocessor,Scope::Global,Scope::Partitioned], needs: &[], build: |_| Err(Invalid::NoCpu) };
