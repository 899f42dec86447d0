import sys

for _ in range(int(input())):
    for word in sys.argv[1:]:
        print(word)
