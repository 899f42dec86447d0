best = here = None
for number in map(int, input().split()):
    here = number if here is None or here < 0 else here + number
    best = here if best is None else max(best, here)
print(best)
