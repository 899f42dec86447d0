print("No" if int(input()) % 2 else "Yes")
