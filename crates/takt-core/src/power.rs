//! Power management: which frequency each group of CPUs has, how deep CPUs may sleep, and whether best-effort partitions start.
//!
//! A power policy is a state machine without a clock, beside the scheduling policy: it learns of events ([`Event`]) and makes requests
//! ([`Requests`]). The engine hosts it ([`Host`]), hands the requests to its driver as commands, and records them. A recorded run
//! replays them, since the engine derives them from the recorded inputs.
//!
//! After the power policies of the DEmOS program (Czech Technical University in Prague), whose thesis describes them in section 4.8.

mod host;
mod interface;
mod model;
mod platform;
pub mod policies;
mod registry;
mod spec;

pub(crate) use host::Request;
pub use host::{Counts, Host};
pub use interface::{Event, PowerPolicy, Requests};
pub use model::{ClusterPower, Model, ThermalNode};
pub use platform::{Demander, Demands, FrequencyDomain, OperatingPoint, Platform};
pub use registry::{Build, Entry, Fault, Registry};
pub use spec::{Kind, Parameter, Point, PowerSpec, Profile, Uses, Value};
