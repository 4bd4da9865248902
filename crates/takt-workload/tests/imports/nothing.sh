echo rtspin
