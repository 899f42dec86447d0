MADE = {("red", "yellow"): "orange", ("blue", "yellow"): "green", ("red", "blue"): "purple"}
kind, first, second = input().split()
if kind == "mix":
    print(MADE[first, second])
else:
    print(f"{int(first) / (int(first) + int(second)):.1f}")
