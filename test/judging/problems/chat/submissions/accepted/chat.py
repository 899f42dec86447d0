while (n := int(input())) != 0:
    print(2 * n, flush=True)
