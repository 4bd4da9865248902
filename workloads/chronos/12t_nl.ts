# ChronOS task set 12t_nl: 12 tasks on one CPU, without locks; utilisation 1.00.
# From the test application of ChronOS (Virginia Tech Real-Time Systems Lab), GitHub repository vadixidav/chronos-project.
L 0
# CPUs group wss_bytes period_us usage_us utility
T 0   1 0   400000   58195  285
T 0   1 0   750000   53963   68
T 0   1 0  1000000  206330  628
T 0   1 0  1200000   53968  818
T 0   1 0  1500000  117449  562
T 0   1 0  2400000  221143 1238
T 0   1 0  3000000  290428  816
T 0   1 0  4000000   83420 3487
T 0   1 0  7500000  380917 4349
T 0   1 0 10000000  613700 5125
T 0   1 0 15000000  936422 4890
T 0   1 0 20000000 1371302 4191
