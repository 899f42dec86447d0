said = input()
print(next(letter for letter in "abcdefgh" if letter not in said))
