print("one", "two")
