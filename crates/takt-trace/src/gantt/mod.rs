//! Gantt charts of a trace: as text for a terminal and as SVG.

mod rows;
mod svg;
mod text;

pub(crate) use rows::{heading_of, nice};
pub(crate) use svg::{FILLS, px};
pub use svg::{SvgOptions, escape, page, svg};
pub use text::{TextOptions, text};
