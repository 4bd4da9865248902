//! Tasks to CPUs under EDF, partitioned and semi-partitioned: the assignment that the policies themselves make.

pub use takt_core::model::Fit;
pub use takt_core::policies::split::assign::{Placed, Split, Strategy, assign};
pub use takt_core::policies::split::bins::{Assignment, Piece};
