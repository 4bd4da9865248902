rtspin 1 10 5
