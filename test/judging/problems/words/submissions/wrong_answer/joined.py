import sys

for _ in range(int(input())):
    print(*sys.argv[1:])
