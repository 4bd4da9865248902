setsched GSN-EDF
rtspin 1 10 5
setsched P-FP
rtspin 1 10 5
setsched Linux
