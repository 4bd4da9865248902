# ChronOS task set 5t_5l: 5 tasks on one CPU, each with two of 5 locks; utilisation 1.00.
# From the test application of ChronOS (Virginia Tech Real-Time Systems Lab), GitHub repository vadixidav/chronos-project.
L 5
# CPUs group wss_bytes period_us usage_us utility locks handler_utility
T 0   1 0   500000  150000   17 1,2 2
T 0   1 0  1000000  227000    4 0,4 2
T 0   1 0  1500000  410000   24 2,3 2
T 0   1 0  3000000  299000   39 3,4 2
T 0   1 0  5000000  500000   18 0,1 2
