command, number = input().split()
print(int(number) + 7 if command == "hide" else int(number) - 7, flush=True)
