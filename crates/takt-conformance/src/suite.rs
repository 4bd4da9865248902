//! The checks of a registry's policies, and what one says that fails.

use crate::case::{self, Case};
use crate::mutants::{self, Difference, Fault};
use crate::play::{self, play, play_and};
use crate::standing::{self, Order};
use crate::subject::{self, Statement, Subject};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use std::fmt::{self, Debug, Display};
use takt_core::engine::Input;
use takt_core::model::{PolicySpec, Profile, System};
use takt_core::policy::Registry;
use takt_core::record::Record;

/// The policies of a registry, and how they are tried.
#[derive(Clone, Debug)]
pub struct Suite {
    subject: Subject,
    seed: u64,
    cases: Option<u32>,
    only: Option<String>,
}

/// A rule that a policy has broken, and how to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The policy, in the form that failed.
    pub policy: String,
    /// The fault, the last steps before it, and the smallest case found.
    pub what: String,
    /// The environment with which it comes again.
    pub again: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\nrepeat with: {}", self.policy, self.what, self.again)
    }
}

impl std::error::Error for Failure {}

/// The name of a form, such as `g-edf`.
fn name(spec: PolicySpec) -> String {
    format!("{}{}", spec.prefix(), spec.profile.name)
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

impl Suite {
    /// A suite for a registry's policies, with the seed and the number of cases of the environment. Without one, the seed is that of the commit ([`takt_testing::FIXED`]).
    ///
    /// # Panics
    /// When the environment names a seed or a number of cases that is none.
    #[must_use]
    pub fn new(registry: Registry) -> Suite {
        Suite {
            subject: Subject { registry, statements: Vec::new() },
            seed: takt_testing::seed(),
            cases: setting("TAKT_CASES"),
            only: std::env::var("TAKT_POLICY").ok(),
        }
    }

    /// States the order of the policy with this plain name a second time.
    #[must_use]
    pub fn stating(mut self, policy: &'static str, order: Statement) -> Suite {
        self.subject.statements.push((policy, order));
        self
    }

    /// So many cases for each check, unless the environment has another number.
    #[must_use]
    pub fn cases(mut self, cases: u32) -> Suite {
        self.cases = self.cases.or(Some(cases));
        self
    }

    /// Another seed, whatever the environment says.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Suite {
        self.seed = seed;
        self
    }

    /// The forms of all policies, or the only one that the environment names.
    #[must_use]
    pub fn forms(&self) -> Vec<PolicySpec> {
        let wanted = |spec: &PolicySpec| self.only.as_ref().is_none_or(|only| *only == name(*spec));
        subject::trying(&self.subject, subject::specs).into_iter().filter(wanted).collect()
    }

    /// Whether the ledger knows in which order the policy runs jobs.
    #[must_use]
    pub fn knows_order(&self, profile: &Profile) -> bool {
        subject::trying(&self.subject, || standing::order(profile).is_some())
    }

    /// Every check, for each form of the policy with this plain name.
    ///
    /// # Errors
    /// The first rule that is broken. Also when the registry does not hold the policy, or one whose order is stated.
    pub fn check(&self, policy: &str) -> Result<(), Failure> {
        let held = |name: &str| self.subject.registry.entry(name).is_some();
        if let Some((unknown, _)) = self.subject.statements.iter().find(|(name, _)| !held(name)) {
            let what = "an order is stated for this policy, and the registry does not hold it".to_owned();
            return Err(self.failure((*unknown).to_owned(), what, 0));
        }
        let forms = self.forms();
        let mut forms = forms.into_iter().filter(|spec| spec.profile.name == policy).peekable();
        if forms.peek().is_none() && self.only.is_none() {
            return Err(self.failure(policy.to_owned(), "the registry does not hold this policy".to_owned(), 0));
        }
        for form in forms {
            self.rules(form)?;
            self.replay(form)?;
            self.switches(form)?;
            self.exchanges(form)?;
            for fault in [Fault::Reversed, Fault::Idle] {
                self.fault(form, fault)?;
            }
        }
        Ok(())
    }

    /// The policy keeps the rules of the model, those of its facts, and its order.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn rules(&self, form: PolicySpec) -> Result<(), Failure> {
        self.attempt(200, &name(form), || case::cases(form), |case| drop(play(&case)))
    }

    /// The recorded inputs of a run that is late give the same records again.
    ///
    /// # Errors
    /// The case in which they do not.
    pub fn replay(&self, form: PolicySpec) -> Result<(), Failure> {
        let cases = || case::cases(form);
        self.attempt(50, &name(form), cases, |case| {
            let (steps, records) = play(&case);
            let mut again: Vec<Record> = Vec::new();
            takt_sim::replay(
                &mut subject::engine(case.system.clone()).expect("it was built before"),
                &steps,
                &mut again,
            );
            assert!(records == again, "the replay differs: {records:?} and {again:?}");
        })
    }

    /// An exchange of the policy has the effect of its decision: a policy that is asked for both and one that is asked for decisions only give the
    /// same records.
    ///
    /// # Errors
    /// The case in which they do not.
    pub fn exchanges(&self, form: PolicySpec) -> Result<(), Failure> {
        let decides = subject::trying(&self.subject, || mutants::with(form, Difference::NoExchange));
        self.attempt(50, &name(form), || case::cases(form), |case| exchange_and_decide(&case, decides))
    }

    /// Another policy gives the same records as this form, as if it were the same policy somewhere else: from the start, and when it takes over in the
    /// middle. Changes of settings are left out: they may build another policy.
    ///
    /// # Errors
    /// The case in which it does not.
    pub fn agrees(&self, form: PolicySpec, other: &'static Profile) -> Result<(), Failure> {
        let cases = || case::cases(form);
        self.attempt(40, &name(form), cases, |case| {
            let (mut steps, _) = play(&case);
            for step in &mut steps {
                step.inputs.retain(|input| !matches!(input, Input::Configure { .. }));
            }
            let records = |profile, takes_over: bool| {
                let policy = PolicySpec { profile, ..case.system.policy };
                let mut system = System { policy, ..case.system.clone() };
                let mut steps = steps.clone();
                if takes_over {
                    let to = system.alternatives.len() as u16;
                    system.alternatives.push(policy);
                    let middle = steps.len() / 2;
                    steps[middle].inputs.push(Input::Switch { domain: None, to });
                }
                let mut records: Vec<Record> = Vec::new();
                let mut engine = subject::engine(system).unwrap_or_else(|e| panic!("{e}"));
                takt_sim::replay(&mut engine, &steps, &mut records);
                records
            };
            for takes_over in [false, true] {
                let (own, theirs) = (records(case.system.policy.profile, takes_over), records(other, takes_over));
                let differs = own.iter().zip(&theirs).position(|(own, theirs)| own != theirs);
                let at = differs.unwrap_or(own.len().min(theirs.len()));
                assert!(own == theirs, "record {at} differs: {:?} and {:?}", own.get(at), theirs.get(at));
            }
        })
    }

    /// Another policy takes over in the middle, and no job is lost.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn switches(&self, from: PolicySpec) -> Result<(), Failure> {
        self.attempt(80, &name(from), || case::switches(from), |case| drop(play(&case)))
    }

    /// Random operations on systems of all policies lose no job and come to an end.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn operations(&self) -> Result<(), Failure> {
        self.attempt(1000, "operations", case::operations, |case| drop(play_and(&case, true)))
    }

    /// A form of the policy with this fault is found, where the ledger can know: the checks of this policy can fail.
    ///
    /// # Errors
    /// When it is not found.
    pub fn fault(&self, form: PolicySpec, fault: Fault) -> Result<(), Failure> {
        subject::trying(&self.subject, || {
            let (known, message) = match fault {
                Fault::Reversed => {
                    (!matches!(standing::order(form.profile), None | Some(Order::Guests)), "although it is ahead")
                }
                Fault::Idle => (mutants::conserves(form), "is idle"),
            };
            if !known {
                return Ok(());
            }
            let cases = (self.seed, self.cases.unwrap_or(400).max(400));
            let form = mutants::with(form, Difference::Fault(fault));
            let found = is_found(form, cases, |found| found.contains(message));
            found.map_err(|other| {
                let what = format!("its {fault:?} form passes: {other}");
                self.failure(name(form), what, cases.1)
            })
        })
    }

    fn failure(&self, policy: String, what: String, cases: u32) -> Failure {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let package = std::env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!(" -p {name}"));
        let again =
            format!("TAKT_SEED={} TAKT_CASES={cases} TAKT_POLICY={policy} cargo test{package} {test}", self.seed);
        Failure { policy, what, again }
    }

    /// Tries random cases.
    fn attempt<T: Debug, S: Strategy<Value = T>>(
        &self,
        default: u32,
        policy: &str,
        cases: impl FnOnce() -> S,
        check: impl Fn(T),
    ) -> Result<(), Failure> {
        let count = self.cases.unwrap_or(default);
        let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, takt_testing::generator(self.seed));
        let result = subject::trying(&self.subject, || {
            runner.run(&cases(), |case| {
                play::in_silence(|| check(case))
                    .map_err(|why| TestCaseError::fail(format!("{why}\n{}", play::logged())))
            })
        });
        result.map_err(|error| {
            let what = match error {
                TestError::Fail(why, case) => format!("{why}\nsmallest case: {case:?}"),
                TestError::Abort(why) => why.to_string(),
            };
            self.failure(policy.to_owned(), what, count)
        })
    }
}

/// The policy of the case, and the same policy that only `decides`, give the same records.
fn exchange_and_decide(case: &Case, decides: PolicySpec) {
    let (steps, records) = play(case);
    let policy = PolicySpec { profile: decides.profile, ..case.system.policy };
    let system = System { policy, ..case.system.clone() };
    let mut decided: Vec<Record> = Vec::new();
    takt_sim::replay(&mut subject::engine(system).expect("it was built before"), &steps, &mut decided);
    let differs = records.iter().zip(&decided).position(|(exchanged, decided)| exchanged != decided);
    let at = differs.unwrap_or(records.len().min(decided.len()));
    assert!(
        records == decided,
        "record {at} of exchanges and decisions differs: {:?} and {:?}",
        records.get(at),
        decided.get(at)
    );
}

/// Whether one of so many cases fails with such a message; if not, what they fail with.
fn is_found(spec: PolicySpec, (seed, count): (u64, u32), message: impl Fn(&str) -> bool) -> Result<(), String> {
    let mut runner = TestRunner::new_with_rng(Config::default(), takt_testing::generator(seed));
    let cases = case::cases(spec);
    let mut others = String::from("nothing is found");
    for _ in 0..count {
        // Nothing is made smaller: that it fails is enough.
        match play::attempt(&cases.new_tree(&mut runner).expect("no case is refused").current()) {
            Err(found) if message(&found) => return Ok(()),
            Err(found) => others = found,
            Ok(()) => {}
        }
    }
    Err(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_that_leaves_out_a_job_is_found() {
        let suite = Suite::new(Registry::standard());
        subject::trying(&suite.subject, || {
            for form in ["edf", "g-edf", "p-rm"].map(|name| suite.subject.registry.spec(name).expect("a policy")) {
                let exchanges = mutants::with(form, Difference::HalfExchange);
                let decides = mutants::with(form, Difference::NoExchange);
                let found = (0..200).any(|number| {
                    let mut runner =
                        TestRunner::new_with_rng(Config::default(), takt_testing::generator(suite.seed + number));
                    let case = case::cases(exchanges).new_tree(&mut runner).expect("no case is refused").current();
                    play::in_silence(|| exchange_and_decide(&case, decides)).is_err()
                });
                assert!(found, "{}", name(form));
            }
        });
    }
}
