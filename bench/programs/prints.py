print("x" * 60_000)
