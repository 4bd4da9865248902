L 0
