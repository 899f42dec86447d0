with open("cards.in") as cards, open("cards.out", "w") as output:
    print(*sorted(cards.read().split(), reverse=True), file=output)
