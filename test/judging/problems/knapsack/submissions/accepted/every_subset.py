most = int(input())
numbers = list(map(int, input().split()))
best = []
for mask in range(1 << len(numbers)):
    chosen = [number for n, number in enumerate(numbers) if mask >> n & 1]
    if sum(best) < sum(chosen) <= most:
        best = chosen
print(*best)
