//! The control socket of a run: the lines that go through it, and both of its ends.

pub(crate) mod client;
pub(crate) mod server;
pub(crate) mod wire;
