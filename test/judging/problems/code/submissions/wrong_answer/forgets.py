command, *words = input().split()
print(*(ord(letter) for letter in words[0]) if command == "encode" else "?")
