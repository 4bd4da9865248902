//! Loading a text, for the tests that compare it with the model that it means.

use takt_core::time::Span;
use takt_workload::{Diagnostic, Options, Source, Workload, load};

pub(crate) const fn ms(n: i64) -> Span {
    Span::from_ms(n)
}

pub(crate) fn source(text: &str) -> Source {
    Source { name: "dir/test.yaml".to_owned(), text: text.to_owned() }
}

#[track_caller]
pub(crate) fn load_with(text: &str, options: &Options) -> Workload {
    let source = source(text);
    match load(source.clone(), options) {
        Ok(workload) => workload,
        Err(faults) => panic!("{}", faults.iter().map(|f| f.render(&source, false)).collect::<String>()),
    }
}

#[track_caller]
pub(crate) fn ok(text: &str) -> Workload {
    load_with(text, &Options::default())
}

/// The only fault.
#[track_caller]
pub(crate) fn fault(text: &str, options: &Options) -> Diagnostic {
    match load(source(text), options) {
        Ok(_) => panic!("this should not load"),
        Err(faults) => {
            assert_eq!(faults.len(), 1, "{faults:?}");
            faults[0].clone()
        }
    }
}
