a, b = map(int, input().split())
assert a and b
while b:
    a, b = b, a % b
print(a)
