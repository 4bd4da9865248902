//! Tasks to CPUs under EDF, partitioned and semi-partitioned: the assignment that the policies themselves make.

pub use takt_core::policies::split::assign::{Assignment, Piece, Placed, Split, Strategy, assign};
pub use takt_core::policy::Fit;
