# ChronOS task set 20t_nl: 20 tasks on one CPU, without locks; results measured with it are public; utilisation 1.00.
# From the test application of ChronOS (Virginia Tech Real-Time Systems Lab), GitHub repository vadixidav/chronos-project.
L 0
# CPUs group wss_bytes period_us usage_us utility
T 0   1 0   300000   11667  285
T 0   1 0   400000   10819   68
T 0   1 0   500000   41369  628
T 0   1 0   600000   10819  818
T 0   1 0   750000   23548  562
T 0   1 0  1000000   44336 1238
T 0   1 0  1200000   58227  816
T 0   1 0  1500000   16724 2187
T 0   1 0  2000000   76369 4349
T 0   1 0  2400000  123040 5125
T 0   1 0  3000000  187742 4890
T 0   1 0  4000000  274930 4191
T 0   1 0  5000000  139709 5087
T 0   1 0  6000000  656168 2886
T 0   1 0  7500000  342504 5830
T 0   1 0 10000000  721059 8180
T 0   1 0 12000000  219420 9053
T 0   1 0 15000000  849294 7007
T 0   1 0 20000000 1731952 1689
T 0   1 0 30000000 1816354 6146
