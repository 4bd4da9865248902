//! I+PI: a control-theoretical scheduler.
//!
//! Leva and Maggio, "Feedback process scheduling with simple discrete-time control structures", IET Control Theory and
//! Applications 4(11), 2010; Terraneo, "Control based design of OS components", Politecnico di Milano, 2011, chapter 2;
//! several CPUs after Papadopoulos, Carone, Maggio and Leva, "A control-theoretical approach to thread scheduling for
//! multicore processors", IEEE CCA 2015. Invariant: in each round a ready task is given at most one burst of CPU time (and
//! may use what it left of it when it wakes again), and the measured bursts of a round alone decide those of the next.

mod cores;
mod homes;
mod manual;
pub mod parameters;
pub mod regulator;
mod rounds;
pub mod setpoints;
pub mod stability;

pub use homes::homes;
pub use manual::{ENTRY, parameters_of};
