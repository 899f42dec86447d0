input()
numbers = [int(word) for word in input().split()]
print(str(sum(numbers) / len(numbers)).replace(".", ","))
