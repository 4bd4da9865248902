# ChronOS task set 10t_5l: 10 tasks on one CPU, each with two of 5 locks; utilisation 1.00.
# From the test application of ChronOS (Virginia Tech Real-Time Systems Lab), GitHub repository vadixidav/chronos-project.
L 5
# CPUs group wss_bytes period_us usage_us utility locks handler_utility
T 0   1 0   400000   75340   36 0,3 4
T 0   1 0   750000   69860   13 3,0 4
T 0   1 0  1200000  267120   67 1,2 4
T 0   1 0  1500000   69860    9 2,0 3
T 0   1 0  2400000  152050  213 1,0 4
T 0   1 0  4000000  286300   57 2,3 4
T 0   1 0  7500000  493150   91 3,1 5
T 0   1 0 10000000  794520  495 3,4 3
T 0   1 0 15000000 1212330  875 4,1 3
T 0   1 0 20000000 1775340  186 1,2 4
