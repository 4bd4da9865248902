//! The line of I+PI in the registry, with its manual page.

use super::parameters::{Parameters, SETTINGS};
use crate::model::{CpuTest, Fact, Invalid, PolicySpec, Profile, Scope};
use crate::policy::Entry;

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "ipi",
        summary: "I+PI: control-theoretical round scheduling (integral and proportional-integral regulators)",
        scopes: &[Scope::Uniprocessor, Scope::Partitioned],
        needs: &[],
        facts: &[Fact::TimeDriven, Fact::IgnoresLocking, Fact::Shares, Fact::Rebalances],
        test: CpuTest::Utilisation,
        settings: SETTINGS,
    },
    manual: manual!(
        "\
Gives each ready task one burst of CPU time per round, and computes the bursts of the next round from the measured bursts.
There are two nested loops. An integral regulator of each task holds its burst, and a PI regulator holds the length of the
round against disturbances of the bursts.

**Law.** With the measured bursts τ_i, the round τ_r = Σ τ_i (idle time is no part of it), its set point τ°, the error
e = τ° - τ_r, and the parts α_i of the round (Σ α_i = 1), once per round k:

    b_c(k) = b_c(k-1) + krr e(k-1) - krr zrr e(k-2)
    b_i(k) = b_i(k-1) + kpi (α_i (τ_r + b_c) - τ_i)

b_i is limited to `least` and `most`, b_c to -τ_r and the CPU time that all tasks can use. While every ready task is at
`most`, b_c can only fall. The arithmetic is in integers (2^-16 ns); the parts add up to exactly one.

**Set points.** A task wants its `share`, or else what `alpha` says. While what the tasks need (their shares, or their
utilisations) is at most one CPU, α is what they want, rescaled to one. In overload it is that times the relative
`importance`, rescaled to one. The round is `nominal` times the number of tasks; `round: shortest` bounds it by half of the
shortest period. With `feedforward` a task that is not ready has no part of the round. `reinit` starts the regulator from the
set points when they change. Within a round tasks run in the order of their age, the newest first (the highest task number at
the start). A task that finishes, blocks or yields ends its burst early; if its next job has been released already, it
continues. A task's own `budget` remains a limit: a job that exhausts it is aborted.

**Waking.** A task that wakes in the middle of a round runs when the round comes to it (`wake: turn`), which it may have
passed. Under `cut` the present burst ends at once besides, as in Miosix from 2.5 on. Under `next` the task runs after the
present burst, under `preempt` before the rest of it. It has its present part of the round, but never twice its part.

**Presets.** `thesis` is Terraneo's scheduler with his settings of 2011. `improved` keeps the law and changes what surrounds it.
Parts are by rate, since a task that comes often must come soon. A round is at most half of the shortest period, and bursts go
down to 0.1 ms. Tasks that wake preempt. The regulator starts again only when a set point has moved by more than a hundredth,
and overload is judged over all tasks. The gains fit the real delay of the loop (kpi 1, krr 1, zrr 0.75). Both poles are at
0.5, so nothing oscillates, and a new set point is reached after half the rounds. The price is scatter: under random lateness
of bursts the round scatters 1.44 times as much as the lateness. With the thesis' gains it is 1.16 times, at dead beat (kpi 1,
krr 2, zrr 0.5) 2.45 times.

**Corrections.** The thesis' algorithm 1 sets τ°_i = α_i τ°_r and leaves b_c unused. Its figure 2.2 and equation 2.5 have
α_i (τ_r + b_c), which is used here. Equation 2.6 has krr (1 + zrr) where the zero of equation 2.7 needs krr (1 - zrr).
Equations 2.1, 2.4 and 2.7 assume one round of delay that the algorithm does not have. So the real inner pole is 1 - kpi, and
the outer ones are the roots of z² + (g-2) z + 1 - g zrr, g = kpi krr. The loop is stable for 0 < kpi < 2, 0 < zrr
< 1 and 0 < g < min(2/zrr, 4/(1+zrr)); `takt check` computes it. Changing α never disturbs the round, since the sum does not
contain α. Overload is a sum above one CPU; the code of the thesis has it from exactly one CPU on.

**Several CPUs.** `p-ipi` has one regulator per CPU; the loops are independent. Tasks are placed by worst fit by load. Every
`migration` period each CPU integrates the demand of its tasks beyond one CPU. Above `threshold` one task of the CPU with the
largest excess moves. Its new CPU is the one for which the busier of the two CPUs is least busy. Only single moves that
improve the balance are made. So the assignment of constant loads settles, but tasks are never swapped. A task moves between
bursts.

**When.** Shares of CPU time must hold although bursts are disturbed. Late timers, code that cannot be preempted, and steal
by a hypervisor are such disturbances. On Linux a burst is measured CPU time. Tasks need neither periods nor deadlines.

**Limits.** It knows no deadlines: on task sets with deadlines EDF is better. If blocking is the only disturbance
(Hartstone), the feedback has no effect: `feedback: no` gives the same schedule. Relative importance decides which tasks
starve: under overload the unimportant tasks miss nearly every deadline, and a count of all misses rewards that. Waking tasks
wait up to a round under `wake: turn`.

**Ties.** None: the order of the round is fixed.

**Cost.** O(tasks) per round; O(1) per burst, and O(tasks) for a burst out of turn (`wake: next` and `preempt`).

**Source.** Leva and Maggio, IET Control Theory and Applications 4(11), 2010; Terraneo, \"Control based design of OS components\",
thesis, Politecnico di Milano, 2011; Maggio, Terraneo and Leva, ACM TECS 13(4), 2014; Papadopoulos, Carone, Maggio and Leva,
IEEE CCA 2015.

**Example.** `policy: ipi` with `tasks: [{name: batch, share: 0.5, batch: yes}, {name: video, share: 0.3, batch: yes}, {name: logger,
share: 0.2, batch: yes}]` holds rounds of 12 ms with bursts of 6, 3.6 and 2.4 ms."
    ),
    build: super::rounds::build,
};

/// The parameters of I+PI; `None` for every other policy.
///
/// # Errors
/// Those of [`Parameters::new`].
#[must_use]
pub fn parameters_of(spec: &PolicySpec) -> Option<Result<Parameters, Invalid>> {
    core::ptr::eq(spec.profile, &raw const ENTRY.profile).then(|| Parameters::new(spec))
}
