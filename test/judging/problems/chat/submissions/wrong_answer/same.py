while (n := int(input())) != 0:
    print(n, flush=True)
