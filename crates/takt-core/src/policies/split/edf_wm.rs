//! EDF-WM: semi-partitioned EDF with window-constrained migration.
//!
//! Kato, Yamasaki, Ishikawa, "Semi-Partitioned Scheduling of Sporadic Task Systems on Multiprocessors", ECRTS 2009. Invariant: the
//! windows of a split task are of equal length, and in each it runs on one CPU, for no longer than the piece that fits there.

use crate::model::{CpuTest, Fact, Profile, Scope, Split};
use crate::policy::Entry;

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "edf-wm",
        summary: "semi-partitioned EDF: a task that fits nowhere is split into equal windows (EDF-WM)",
        scopes: &[Scope::Partitioned],
        needs: super::NEEDS,
        facts: &[Fact::Splits(Split::Windows)],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Tasks are placed on CPUs as under `p-edf`, one after the other, by the exact test of EDF. A task that fits on no CPU is
split. Its deadline is divided into n windows of equal length, with n as small as possible. In each window the task runs on
another CPU, for as long as that CPU allows. Each CPU runs EDF; the deadline of a piece is the end of its window.

**When.** Periodic or sporadic tasks that nearly fill the machine. At nine tenths of four CPUs it accepts most of the sets
that `p-edf` refuses. A split task migrates n - 1 times per job; the others never do. `takt check` says whether the test
accepts the system: then no deadline is missed. A task that it refuses goes to the emptiest CPU, which may be overloaded.

**Placement.** `ff` is that of the paper, `wf` that of AIRS; with `ffd`, the default, tasks come in the order of decreasing
utilisation. The size of a piece is computed exactly for all deadlines, not only the first of each task.

**At run time.** After an exhausted piece the task waits for the end of its window, where a timer moves it to the next CPU. A
job that completes earlier cancels the timer, and the next job begins on the first CPU of its route. If a job is released
while its predecessor is late, its windows start when the predecessor completes. They start no earlier than a period after
the start of the predecessor's windows. An unused piece is lost. A job that exceeds its runtime continues after its last
piece, as under `edf`. A mode change does not move tasks.

**Resources.** They are granted in the order of deadlines, without priority inheritance, and the test ignores them.

**Ties.** The earlier release first, then the lower task number. A job that yields goes behind those of equal deadline.

**Cost.** O(ready jobs of a CPU) per event, O(log n) for a timer, O(m) per decision.

**Source.** Kato, Yamasaki, Ishikawa, ECRTS 2009; Kato, Rajkumar, Ishikawa, \"AIRS\", ECRTS 2010, section 5.

**Example.** Five tasks of 25 ms every 41 ms on four CPUs. Each of the first four has a CPU. In the first half of its period
the last runs for 16 ms on one of them, in the second for 9 ms on another."
    ),
    build: |build| super::build(build, Split::Windows),
};
