setsched C-EDF
rtspin 1 10 5
