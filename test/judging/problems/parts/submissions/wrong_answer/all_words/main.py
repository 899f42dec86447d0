import words

print(len(words.read()))
