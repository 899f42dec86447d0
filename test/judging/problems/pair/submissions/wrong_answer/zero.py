print(0, int(input()))
