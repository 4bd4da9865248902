//! t
use crate::Outcome;
pub(crate) fn run() -> Outcome {
    Outcome::Passed
}
