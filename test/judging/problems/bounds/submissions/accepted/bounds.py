n = int(input())
print("too small" if n < {{least}} else "{{word}}" if n > {{most}} else "in bounds")
