with open("cards.in") as cards, open("cards.out", "w") as output:
    print(*sorted(map(int, cards.read().split())), file=output)
