//! Frequencies, idle states, temperatures and energy of a machine: what Linux lets a run set, and what it measures.
//!
//! [`Power`] takes the frequency domains of a run over and restores them. Requests are written by a thread of its own, sensors are read by another one, and
//! the scheduler waits for neither. The settings from before are in a journal until they are restored, so that a run that dies changes nothing for good.

mod control;
mod cpufreq;
mod forecast;
mod idle;
mod imitation;
mod lock;
mod meters;
mod root;
mod sampler;
mod sensors;
mod state;
mod writer;

pub use control::{Account, Power, Settings};
pub use cpufreq::{Domain, Method, current_frequency, domains, time_in_state};
pub(crate) use lock::DomainLock;
pub use lock::Refusal;
pub use meters::{Meter, Quantity, meters};
pub use root::Root;
pub use sampler::Sample;
pub use sensors::{Energy, Zone, zones};
pub use writer::{Requests, Written};
