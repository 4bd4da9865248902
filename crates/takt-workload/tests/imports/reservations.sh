setsched P-RES
rtspin 1 10 5
