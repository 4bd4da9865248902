//! Reasons why an isolation is not created, changed or found.

/// Why an isolation was not created, changed or found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The request is wrong: the reason, and what to do.
    #[error("{0}")]
    Request(String, String),
    /// This machine does not have CPUs of the request: the reason.
    #[error("{0}")]
    MissingCpus(String),
    /// There is no isolation of this name.
    #[error("there is no isolation `{0}`")]
    Unknown(String),
    /// The CPUs have another use: the reason, and what to do.
    #[error("{0}")]
    InUse(String, String),
    /// This machine or this user cannot: the reason, and what to do.
    #[error("{0}")]
    Machine(String, String),
    /// There is no room for the journal of changes: the reason.
    #[error("{0}")]
    Full(String),
    /// Something could not be restored. The journal remains, so the command can be repeated.
    #[error("{0}")]
    NotRestored(String),
}

impl Refusal {
    /// The remedy.
    #[must_use]
    pub fn fix(&self) -> &str {
        match self {
            Refusal::Request(_, fix) | Refusal::InUse(_, fix) | Refusal::Machine(_, fix) => fix,
            Refusal::Full(_) => "free some space on the file system of /run (`df /run`, `df -i /run`)",
            Refusal::MissingCpus(_) => "name CPUs of this machine",
            Refusal::Unknown(_) => "`takt isolate status` lists the isolations",
            Refusal::NotRestored(_) => "repeat `takt isolate undo` as root when the cause is removed",
        }
    }
}
