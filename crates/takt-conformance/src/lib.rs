//! The rules that every scheduling policy must keep, whatever happens: tried with random systems and random inputs, on time and late, by a
//! ledger that believes only commands and records.
//!
//! A [`Suite`] tries the policies of a registry, those from outside like Takt's own:
//!
//! ```
//! use takt_conformance::Suite;
//! use takt_core::policy::Registry;
//!
//! // A crate with a policy says `Registry::standard().with(&ENTRY)`, and more about its order by `Suite::stating`.
//! let suite = Suite::new(Registry::standard());
//! suite.cases(20).check("edf").unwrap();
//! ```
//!
//! The ledger knows the model's rules and each policy's facts. Which ready job may wait while which one runs it knows of Takt's own
//! policies, and of others by [`Suite::stating`]: the order is stated a second time, and never read from the policy's code.
//!
//! The environment chooses: `TAKT_SEED` and `TAKT_CASES` other and more cases, `TAKT_POLICY` one form of a policy, such as `g-edf`. A
//! failure says with which values it comes again, and shows the smallest case found.

mod case;
mod choices;
mod fair;
mod jobs;
mod judge;
mod ledger;
mod mutants;
mod orders;
mod play;
mod reservations;
mod rounds;
mod rules;
mod servers;
mod sharing;
mod standing;
mod subject;
mod suite;

pub use mutants::Fault;
pub use subject::{Bounds, Statement, Waiting};
pub use suite::{Failure, Suite};
