# ChronOS task set 5t_nl_p: 5 tasks on two CPUs, each CPU a scheduling domain of its own, without locks.
# From the test application of ChronOS (Virginia Tech Real-Time Systems Lab), GitHub repository vadixidav/chronos-project.
L 0
# CPUs group wss_bytes period_us usage_us utility
T 0   1 0   500000  150000   17
T 1   1 0  1000000  227000    4
T 0   1 0  1500000  410000   24
T 1   1 0  3000000  299000   39
T 0   1 0  5000000  500000   18
