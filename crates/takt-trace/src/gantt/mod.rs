//! Gantt charts of a trace: as text for a terminal and as SVG.

mod curves;
mod opening;
mod rows;
mod svg;
mod text;
mod xml;

pub use opening::first_hyperperiod;
pub(crate) use rows::{heading_of, nice};
pub(crate) use svg::FILLS;
pub use svg::{SvgOptions, svg};
pub use text::{TextOptions, text};
pub(crate) use xml::px;
pub use xml::{escape, page};
