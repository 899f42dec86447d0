print(*sorted(map(int, open("cards.in").read().split())))
