setsched GSN-EDF
rtspin -w 1ms 10 5
rtspin -w 0 -10 5
rtspin -s 0 -u x -q 600 1 10 5
rtspin -X FLMP -Q -1 1 10 5
rtspin -N 3 1 10 5
rtspin 1 10
rtspin -d
rtspin 12 10 5
rtspin -d 5 8 10 5
rtspin $1 10 0
rtspin -p x 0.0000001 10 5
rt_launch 1 10 --
rt_launch 1 10 $PROG
