a, b = map(int, input().split())
if a == b:
    a, b = 1, 1
while b:
    a, b = b, a % b
print(a)
