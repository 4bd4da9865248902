//! C=D: semi-partitioned EDF with pieces whose deadline is their length.
//!
//! Burns, Davis, Wang, Zhang, "Partitioned EDF Scheduling for Multiprocessors Using a C=D Task Splitting Scheme", Real-Time
//! Systems 48, 2012. Invariant: every piece of a split task but the last runs as soon as it is released and to its end.

use crate::model::{CpuTest, Fact, Profile, Scope, Split};
use crate::policy::Entry;

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "edf-cd",
        summary: "semi-partitioned EDF: a task that fits nowhere is split into tight pieces (C=D)",
        scopes: &[Scope::Partitioned],
        needs: super::NEEDS,
        facts: &[Fact::Splits(Split::Tight)],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Tasks are placed on CPUs by the exact test of EDF. A task that fits on no CPU fills up one CPU after the other with pieces
whose deadline is their length. So each piece runs at once and to its end. The last piece is the rest of the task, with the
rest of its deadline. Each CPU runs EDF.

**When.** As `edf-wm`. It accepts somewhat more sets near full load. In exchange the tight pieces preempt all other jobs on
their CPUs. A late clock has an immediate effect: the last piece must execute everything that earlier pieces lost. `takt
check` says whether the test accepts the system: then no deadline is missed. A task that it refuses goes to the emptiest CPU,
which may be overloaded.

**At run time.** The piece that follows is released a piece's length after its predecessor, by a timer. Late jobs, overruns,
resources and ties are as under `edf-wm`.

**Cost.** O(ready jobs of a CPU) per event, O(log n) for a timer, O(m) per decision.

**Source.** Burns, Davis, Wang, Zhang, Real-Time Systems 48, 2012.

**Example.** Three tasks of 6 ms every 10 ms on two CPUs, `--placement ff`. The third runs for its first 4 ms on one CPU and
for the other 2 ms on the other."
    ),
    build: |build| super::build(build, Split::Tight),
};
