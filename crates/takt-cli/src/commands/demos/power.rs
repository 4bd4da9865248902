//! The option `-p`. This is the only place that decides about its policies.

use super::log::Log;
use crate::failure::Failure;
use takt_workload::Code;

/// Prepares the power policy of this name, in any case of its letters.
///
/// # Errors
/// Every name but `none`.
pub(super) fn set_up(policy: Option<&str>, log: &mut Log) -> Result<(), Failure> {
    let Some(policy) = policy.filter(|policy| !policy.is_empty()) else {
        log.info("Power management disabled (to enable, select a power policy using the -p parameter)");
        return Ok(());
    };
    if policy.eq_ignore_ascii_case("none") {
        log.info("Power management disabled ('none' policy selected)");
        return Ok(());
    }
    let message = format!(
        "`-p {policy}` cannot be carried out: this version sets no frequencies, and knows the policy `none` alone"
    );
    Err(Failure::input(Code::UnknownPolicy, message, "leave `-p` out, and set the frequency with `cpupower`"))
}
