left = int(input())
for number in sorted(map(int, input().split()), reverse=True):
    if number <= left:
        left -= number
        print(number)
