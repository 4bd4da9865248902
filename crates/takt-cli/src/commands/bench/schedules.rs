//! Window tables with the schedule logs that DEmOS writes for them: the table, the length of the run in milliseconds, and the lines. The seed
//! of the budgets is 2.

/// The nine schedules of DEmOS's own test (0300), whose lines it compares exactly.
pub(crate) const SCHEDULES: [(&str, &str, &str); 9] = [
    (
        "windows: [{cpu: 0, length: 10, sc_partition: [{cmd: exec sleep 60, budget: 5}]}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 60' budget=5
    10: cpus=0 cmd='exec sleep 60' budget=5
    20: cpus=0 cmd='exec sleep 60' budget=5
",
    ),
    (
        "windows: [{cpu: 0, length: 10, sc_partition: [{cmd: exec sleep 60, budget: 15}]}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 60' budget=15
    10: cpus=0 cmd='exec sleep 60' budget=15
    20: cpus=0 cmd='exec sleep 60' budget=15
",
    ),
    (
        "windows: [{cpu: 0, length: 10, sc_partition: [{cmd: exec sleep 61, budget: 2}, {cmd: exec sleep 62, budget: 3}]}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 61' budget=2
     2: cpus=0 cmd='exec sleep 62' budget=3
    10: cpus=0 cmd='exec sleep 61' budget=2
    12: cpus=0 cmd='exec sleep 62' budget=3
    20: cpus=0 cmd='exec sleep 61' budget=2
",
    ),
    (
        "windows: [{cpu: 0, length: 10, be_partition: [{cmd: exec sleep 60, budget: 5}]}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 60' budget=5
    10: cpus=0 cmd='exec sleep 60' budget=5
    20: cpus=0 cmd='exec sleep 60' budget=5
",
    ),
    (
        "windows: [{cpu: 0, length: 10, be_partition: [{cmd: exec sleep 60, budget: 15}]}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 60' budget=15
    10: cpus=0 cmd='exec sleep 60' budget=5
    20: cpus=0 cmd='exec sleep 60' budget=15
",
    ),
    (
        "windows: [{cpu: 0, length: 10, be_partition: [{cmd: exec sleep 61, budget: 2}, {cmd: exec sleep 62, budget: 3}]}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 61' budget=2
     2: cpus=0 cmd='exec sleep 62' budget=3
    10: cpus=0 cmd='exec sleep 61' budget=2
    12: cpus=0 cmd='exec sleep 62' budget=3
    20: cpus=0 cmd='exec sleep 61' budget=2
",
    ),
    (
        "windows:
  - length: 10
    slices:
      - {cpu: 0, sc_partition: {cmd: exec sleep 61, budget: 5}}
      - {cpu: 1, sc_partition: {cmd: exec sleep 62, budget: 3}, be_partition: {cmd: exec sleep 63, budget: 2}}",
        "20",
        "     0: cpus=0 cmd='exec sleep 61' budget=5
     0: cpus=1 cmd='exec sleep 62' budget=3
     5: cpus=1 cmd='exec sleep 63' budget=2
    10: cpus=0 cmd='exec sleep 61' budget=5
    10: cpus=1 cmd='exec sleep 62' budget=3
    15: cpus=1 cmd='exec sleep 63' budget=2
    20: cpus=0 cmd='exec sleep 61' budget=5
    20: cpus=1 cmd='exec sleep 62' budget=3
",
    ),
    (
        "partitions: [{name: BE, processes: [{cmd: exec sleep 60, budget: 9}]}]
windows: [{length: 2, cpu: 0, be_partition: BE}, {length: 3, cpu: 0, be_partition: BE}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 60' budget=9
     2: cpus=0 cmd='exec sleep 60' budget=7
     5: cpus=0 cmd='exec sleep 60' budget=4
     7: cpus=0 cmd='exec sleep 60' budget=2
    10: cpus=0 cmd='exec sleep 60' budget=9
    12: cpus=0 cmd='exec sleep 60' budget=7
    15: cpus=0 cmd='exec sleep 60' budget=4
    17: cpus=0 cmd='exec sleep 60' budget=2
    20: cpus=0 cmd='exec sleep 60' budget=9
",
    ),
    (
        "windows: [{length: 2, cpu: 0, sc_processes: [{cmd: exec sleep 60, budget: 1, jitter: 2}]}]",
        "10",
        "     0: cpus=0 cmd='exec sleep 60' budget=1
     6: cpus=0 cmd='exec sleep 60' budget=2
     8: cpus=0 cmd='exec sleep 60' budget=1
    10: cpus=0 cmd='exec sleep 60' budget=2
",
    ),
];

/// Schedules that are harder to agree in: one partition on both sides, budgets that end with their window, queues over windows.
pub(crate) const HARDER: [(&str, &str, &str); 4] = [
    (
        // b keeps 4 ms of the best-effort window for the safety-critical one.
        "partitions: [{name: P, processes: [{cmd: exec sleep 61, budget: 6}, {cmd: exec sleep 62, budget: 8}]}]
windows: [{length: 10, cpu: 0, be_partition: P}, {length: 12, cpu: 0, sc_partition: P}]",
        "22",
        "     0: cpus=0 cmd='exec sleep 61' budget=6
     6: cpus=0 cmd='exec sleep 62' budget=8
    10: cpus=0 cmd='exec sleep 61' budget=6
    16: cpus=0 cmd='exec sleep 62' budget=4
    22: cpus=0 cmd='exec sleep 61' budget=6
",
    ),
    (
        // A budget that ends with the window is exhausted: the next window begins with the next process.
        "partitions: [{name: P, processes: [{cmd: exec sleep 61, budget: 10}, {cmd: exec sleep 62, budget: 4}]}]
windows: [{length: 10, cpu: 0, be_partition: P}]",
        "20",
        "     0: cpus=0 cmd='exec sleep 61' budget=10
    10: cpus=0 cmd='exec sleep 62' budget=4
    14: cpus=0 cmd='exec sleep 61' budget=10
    20: cpus=0 cmd='exec sleep 61' budget=4
",
    ),
    (
        // A queue of three over windows of two lengths, each process at most once in a window.
        "partitions:
  - name: Q
    processes: [{cmd: exec sleep 61, budget: 3}, {cmd: exec sleep 62, budget: 3}, {cmd: exec sleep 63, budget: 3}]
windows: [{length: 5, cpu: 0, be_partition: Q}, {length: 12, cpu: 0, be_partition: Q}]",
        "17",
        "     0: cpus=0 cmd='exec sleep 61' budget=3
     3: cpus=0 cmd='exec sleep 62' budget=3
     5: cpus=0 cmd='exec sleep 62' budget=1
     6: cpus=0 cmd='exec sleep 63' budget=3
     9: cpus=0 cmd='exec sleep 61' budget=3
    17: cpus=0 cmd='exec sleep 62' budget=3
",
    ),
    (
        // The safety-critical side of one slice holds up the best-effort sides of both.
        "windows:
  - length: 9
    slices:
      - {cpu: 0, sc_partition: {cmd: exec sleep 61, budget: 4}, be_partition: {cmd: exec sleep 62, budget: 7}}
      - {cpu: 1, be_partition: [{cmd: exec sleep 63, budget: 2}, {cmd: exec sleep 64, budget: 9}]}",
        "18",
        "     0: cpus=0 cmd='exec sleep 61' budget=4
     4: cpus=0 cmd='exec sleep 62' budget=7
     4: cpus=1 cmd='exec sleep 63' budget=2
     6: cpus=1 cmd='exec sleep 64' budget=9
     9: cpus=0 cmd='exec sleep 61' budget=4
    13: cpus=0 cmd='exec sleep 62' budget=2
    13: cpus=1 cmd='exec sleep 64' budget=6
    18: cpus=0 cmd='exec sleep 61' budget=4
",
    ),
];
