//! The option `-p`.

use super::log::Log;
use crate::failure::Failure;
use takt_core::power::PowerSpec;
use takt_workload::power_from_text;

/// The power policy of this name with its arguments, in any case of its letters. Without one, that of the file holds.
///
/// # Errors
/// There is no such policy, or its arguments are wrong.
pub(super) fn policy(text: Option<&str>) -> Result<Option<PowerSpec>, Failure> {
    let text = text.filter(|text| !text.is_empty());
    let spec = text.map(power_from_text).transpose();
    spec.map_err(|fault| {
        Failure::input(fault.code, &fault, "`takt policies --power` describes them; `-p none` is none")
    })
}

/// Logs whether frequencies are controlled.
pub(super) fn announce(policy: Option<&PowerSpec>, is_asked: bool, log: &mut Log) {
    match policy {
        None => log.info("Power management disabled (to enable, select a power policy using the -p parameter)"),
        Some(spec) if spec.is_none() && is_asked => {
            log.info("Power management disabled ('none' policy selected)");
        }
        Some(spec) => log.info(&format!("Power policy '{}'", takt_workload::power_text(spec))),
    }
}
