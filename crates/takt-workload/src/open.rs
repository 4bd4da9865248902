//! Reads a file, whatever it holds.

use crate::diagnostic::{Diagnostic, sort};
use crate::machine::no_copies;
use crate::settings::Options;
use crate::source::Source;
use crate::workload::Workload;
use crate::{csv, import, yaml};

/// Reads a workload: a task set if the name ends in `.csv`, a task set of ChronOS if it begins like one, else YAML.
///
/// # Errors
/// The faults of the file in its order, at most [`crate::MAX_DIAGNOSTICS`].
pub fn load(source: Source, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    let read = |()| {
        if source.is_csv() {
            csv::load(&source, options)
        } else if import::chronos::is_task_set(&source.text) {
            if !options.copies.is_empty() {
                return Err(vec![no_copies(&(0..0), "a task set of ChronOS")]);
            }
            import::chronos::load(&source, &import::chronos::Run::default(), options)
        } else {
            yaml::load(&source, options)
        }
    };
    let result = source.check().map_err(|fault| vec![fault]).and_then(read);
    match result {
        Ok(mut workload) => {
            workload.settle_processes();
            sort(&mut workload.warnings);
            Ok(workload)
        }
        Err(mut faults) => {
            sort(&mut faults);
            Err(faults)
        }
    }
}
