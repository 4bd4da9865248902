//! The policies, one file each, and what they share: [`scope`] spreads an ordering over CPUs, and
//! [`mapping`] chooses the CPU of each job that a global policy has chosen.

pub mod accrual;
pub mod aperiodic;
pub mod dasa;
pub mod dasa_nd;
pub mod dm;
pub mod domains;
pub mod edf;
pub mod fifo;
mod forest;
pub mod fp;
pub mod g_gua;
pub mod gmua;
pub mod gus;
pub mod hvdf;
pub mod ipi;
pub mod lbesa;
pub mod llf;
pub mod llref;
pub mod mapping;
mod mersenne;
pub mod ng_gua;
pub mod np_edf;
pub mod np_hvdf;
pub mod pd2;
mod pfair;
pub mod reservation;
pub mod rm;
pub mod rr;
pub mod scope;
pub mod split;
pub mod windows;
