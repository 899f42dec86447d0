print(input().split()[1], flush=True)
