best = here = 0
for number in map(int, input().split()):
    here = max(0, here + number)
    best = max(best, here)
print(best)
