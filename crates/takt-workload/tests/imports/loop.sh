setsched GSN-EDF
for i in 1 2 3; do
  rtspin -w 1 10 5 &
done
