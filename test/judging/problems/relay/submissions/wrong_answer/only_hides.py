print(int(input().split()[1]) + 7, flush=True)
