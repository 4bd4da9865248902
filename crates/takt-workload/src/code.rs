//! The kinds of messages: a stable name for each, which programs and tests may rely on.

use std::fmt;

macro_rules! codes {
    ($($variant:ident $name:literal $explanation:literal;)*) => {
        /// The kind of a message. Its name is stable, its wording is not.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Code {
            $(#[doc = $explanation] $variant,)*
        }

        impl Code {
            /// All kinds, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The name in a message, as in `error[unknown-key]`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Code::$variant => $name,)*
                }
            }

            /// The fault and its remedy.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Code::$variant => $explanation,)*
                }
            }
        }
    };
}

codes! {
    OutOfMemory "out-of-memory"
        "Memory is exhausted. Raise the limit (`ulimit -v`), or make the workload smaller.";
    UnreadableFile "unreadable-file"
        "A file cannot be opened or read. Correct its path or its permissions.";
    UnwritableFile "unwritable-file"
        "A file or standard output cannot be written. Name another file, or make room on the disk.";
    SameFile "same-file"
        "A command would overwrite a file that it reads or writes elsewhere. Name another file.";
    FileExists "file-exists"
        "A command would overwrite a file that exists. Name another file, or remove the file.";
    FileInUse "file-in-use"
        "Another process of Takt writes a file. Name another file, or wait for the end of that process.";
    WrongFormat "wrong-format"
        "A file has another format than the command reads or writes. Give a file of that format, or change the ending of its name.";
    DamagedFile "damaged-file"
        "A file of the right format has contents that Takt cannot read. Write the file again.";
    IncompleteRecord "incomplete-record"
        "Parts of an experiment are missing or not finished. Compute them, or give `--partial`.";
    OtherRecord "other-record"
        "A trace, a record or a saved state belongs to another workload or another experiment. Give the files that belong together.";
    NotMeasured "not-measured"
        "A task has no measured job in a trace. Record a longer run, or keep the runtime of the file (`--keep`).";
    SyntaxError "syntax-error"
        "The text of a file breaks the rules of its language. Correct the marked place.";
    NothingToSchedule "nothing-to-schedule"
        "A file describes no task. Add `tasks` or `windows`.";
    UnknownKey "unknown-key"
        "A key, an option of a script, or a kind of step does not exist. Correct its spelling, or remove it.";
    MissingKey "missing-key"
        "A required key or column is absent, or another key needs it. Add the key.";
    MissingValue "missing-value"
        "A step, a call or a line lacks an argument. Add the argument.";
    EmptyValue "empty-value"
        "A value or a list is empty. Add an entry, or remove the key.";
    DuplicateKey "duplicate-key"
        "A key, a column or a setting is given twice. Keep one of them.";
    ConflictingKeys "conflicting-keys"
        "Two keys exclude each other. Keep one of them.";
    WrongType "wrong-type"
        "A value has another form than its key takes, such as a word in place of a number. Write the form that the message names.";
    MissingUnit "missing-unit"
        "A duration has no unit. Add the unit, as in `10ms`.";
    UnknownValue "unknown-value"
        "A value is not one of the words that its key takes. Write one of the words in the message.";
    OutOfRange "out-of-range"
        "A value is outside the range that Takt accepts. Choose a value within the range.";
    LimitExceeded "limit-exceeded"
        "A file has more bytes, entries or levels than Takt accepts. Describe a smaller system.";
    NotAscending "not-ascending"
        "Entries of a list are not in ascending order. Sort the list.";
    InvalidCharacter "invalid-character"
        "A name or a command holds a character that Takt does not accept. Remove the character.";
    DuplicateName "duplicate-name"
        "Two entries have the same name. Rename or remove one of them.";
    UnknownName "unknown-name"
        "A name refers to nothing that the file or the program has. Correct the name, or add what it refers to.";
    UnknownUser "unknown-user"
        "A user or a group is not in the database of this machine. Correct the name, or create the user or group.";
    MissingDirectory "missing-directory"
        "A directory in which a process is to run does not exist. Correct the path, or create the directory.";
    UnusedName "unused-name"
        "A partition, a domain, a server or a group is described, and nothing uses it. Use it, or remove it.";
    MissingPolicy "missing-policy"
        "Tasks have no scheduling policy. Add `policy` to the file, or give `--policy`.";
    UnknownPolicy "unknown-policy"
        "A policy is not in the registry. `takt policies` lists all policies.";
    UnknownSetting "unknown-setting"
        "A policy has no setting of this name. `takt policies NAME` lists its settings.";
    UnstableGains "unstable-gains"
        "Settings of a policy do not suit each other. Change one of them, or leave them out.";
    UnsuitableModule "unsuitable-module"
        "A file is no WebAssembly module with a scheduling policy. Build it with `takt-wasm-module`, of the version of this program.";
    UnsuitablePolicy "unsuitable-policy"
        "A policy cannot schedule this system on these CPUs. Choose another policy, or change the tasks or the CPUs.";
    NotSupportedHere "not-supported-here"
        "A key, an option or a construct is correct elsewhere and not supported here. Remove or replace it.";
    ConflictingOptions "conflicting-options"
        "An option contradicts another option or the file. Leave one of them out.";
    NoEffect "no-effect"
        "A key or an option changes nothing here. Remove it, or change what makes it useless.";
    IgnoredKey "ignored-key"
        "The command does not carry out a key of the file. Remove the key, or use the other command; `--allow-differences` accepts different outcomes.";
    NotImported "not-imported"
        "An import leaves a part of the original out, or replaces it. Compare the result with the original.";
    PresetMismatch "preset-mismatch"
        "A task does not meet the assumptions of the `preset`. Change the task, or remove the preset.";
    NoTerminal "no-terminal"
        "A command that draws on the whole terminal has none. Start it in a terminal, or use the option that the message names.";
    UnusableAddress "unusable-address"
        "Metrics cannot be served at an address. Give a free loopback address, or the path of a Unix socket that can be made.";
    CpuOutside "cpu-outside"
        "A task, a window or a domain names a CPU outside its machine or domain. Correct the CPU, or enlarge the machine or domain.";
    CpuOverlap "cpu-overlap"
        "Two slices or two domains share a CPU. Give each CPU to one of them; domains may also have the same CPUs in different bands.";
    NoExecution "no-execution"
        "A job has nothing to run. Add execution time.";
    ImpossibleDeadline "impossible-deadline"
        "A task misses its deadline even when it runs alone. Raise the deadline, or lower the runtime.";
    PossibleMiss "possible-miss"
        "A task alone can miss its deadline with its longest runtime or with its sleeps. Raise the deadline, or shorten the job.";
    Overload "overload"
        "Tasks need more time than their CPUs or periods have. Lower their runtimes or shares, or raise their periods.";
    UnboundedEvents "unbounded-events"
        "Events without a least distance can release jobs faster than the CPUs complete them, and other tasks miss their deadlines. Add \
         `distance` to the event, or give the task a server or a reservation.";
    BudgetMismatch "budget-mismatch"
        "The budgets of processes and the lengths of their windows do not agree. Change a `budget` or a window.";
    UnbalancedLock "unbalanced-lock"
        "The steps of a job lock and unlock a resource in an order that cannot be kept. Pair each `lock` with one `unlock` of the same job.";
    ImpossibleCall "impossible-call"
        "A job changes its own terms to values that its task cannot have. Change the value, or the order of the calls.";
    NeverReached "never-reached"
        "A change, a point or a step lies beyond what can happen in the run. Move it, or remove it.";
    EmptyRange "empty-range"
        "The range of a chart contains nothing of the run. Choose instants within the run.";
    NotApplicable "not-applicable"
        "A schedulability test does not apply to this system. Choose another test, or change the system.";
    NotFreezable "not-freezable"
        "A schedule cannot be written as a window table. Change the policy, or the part that the message names.";
    MissingCapability "missing-capability"
        "The machine or the user lacks a right or a kernel feature. `takt doctor` reports what is missing.";
    MissingCpu "missing-cpu"
        "The machine does not have a CPU that the file or an option names. Name a CPU of the machine.";
    FrequencyInUse "frequency-in-use"
        "Another run controls the frequency of a CPU. End that run or wait for its end, or use CPUs of other frequency domains.";
    PowerUnavailable "power-unavailable"
        "This machine cannot control frequencies or read sensors as the power policy needs it, or this user may not. Follow the fix, or run \
         without a power policy; a simulation needs only a `platform`.";
    CpuInUse "cpu-in-use"
        "A CPU cannot be locked for this run, mostly because another run holds it. Wait for the end of that run, or name other CPUs.";
    MissingProgram "missing-program"
        "Another program is missing, or did not do its work. Install the program, or see whether it works by itself.";
    BusyMachine "busy-machine"
        "Other work on the machine disturbs a measurement. Repeat it on a machine with less to do.";
    SystemError "system-error"
        "The operating system refused an operation during a run. See `takt doctor`.";
    InitFailed "init-failed"
        "A process failed or exceeded the time limit during its initialisation. Correct the program, or raise `init_timeout`.";
    ClientProtocol "client-protocol"
        "A process cannot signal completion to its scheduler. Start it under `takt run`.";
    CleanupFailed "cleanup-failed"
        "Processes or cgroups of an earlier run could not be removed. Repeat the command as root.";
    NoRun "no-run"
        "No run can be reached, or not the one that was named. `takt ctl status` lists the runs if there are several.";
    NotAdmitted "not-admitted"
        "The policy of a run does not accept a change. Ask for less, remove a task, or choose another policy.";
    CommandRefused "command-refused"
        "A run refuses a command, and nothing has changed. Correct the command as the message says.";
    InternalFault "internal-fault"
        "A part of Takt failed. Report the message as a bug.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinct_words_with_hyphens_and_explanations_are_sentences() {
        let names: HashSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            let (name, text) = (code.name(), code.explanation());
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
            assert!(text.ends_with('.') && text.matches(". ").count() <= 1, "{name}: {text}");
        }
    }
}
