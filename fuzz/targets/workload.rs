//! No text makes the reader of workload files panic, and what it accepts has a canonical form that means the same and can be simulated.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use takt_core::engine::Engine;
use takt_sim::Simulation;
use takt_workload::{Options, Source, canonical, load, registry};

/// Longer texts find nothing new, and take long.
const LONGEST: usize = 8 << 10;
const STEPS: usize = 200;

fuzz_target!(|text: &str| -> Corpus {
    if text.len() > LONGEST {
        return Corpus::Reject;
    }
    for name in ["fuzz.yaml", "fuzz.csv"] {
        let source = Source { name: name.into(), text: text.into() };
        let Ok(workload) = load(source, &Options::default()) else { continue };
        let again = Source { name: "again.yaml".into(), text: canonical(&workload) };
        let again = load(again, &Options::default()).unwrap_or_else(|faults| panic!("{faults:#?}"));
        assert_eq!(canonical(&again), canonical(&workload));
        // A system of a thousand tasks takes long to build, and shows nothing that ten do not.
        if workload.tasks.len() > 50 {
            continue;
        }
        let engine = Engine::with_registry(workload.system.clone(), registry().clone());
        let mut simulation = Simulation::new(engine.expect("the reader has built its policy"), &workload.scenario);
        for _ in 0..STEPS {
            if simulation.step(&mut ()).is_none() {
                break;
            }
        }
    }
    Corpus::Keep
});
