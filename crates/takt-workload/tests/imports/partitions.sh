setsched PSN-EDF
rtspin -p 2000 1 10 5
rtspin -p $CPU 1 10 5
