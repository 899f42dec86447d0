command, *words = input().split()
if command == "decode":
    raise SystemExit(1)
print(*(ord(letter) for letter in words[0]))
