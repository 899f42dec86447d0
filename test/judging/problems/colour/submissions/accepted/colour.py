MADE = {("red", "yellow"): "ORANGE", ("blue", "yellow"): "GREEN", ("red", "blue"): "purple"}
kind, first, second = input().split()
if kind == "mix":
    print(MADE[first, second])
else:
    print(int(first) / (int(first) + int(second)))
