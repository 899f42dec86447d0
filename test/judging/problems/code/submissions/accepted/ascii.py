command, *words = input().split()
if command == "encode":
    print(*(ord(letter) for letter in words[0]))
else:
    print("".join(chr(int(word)) for word in words))
