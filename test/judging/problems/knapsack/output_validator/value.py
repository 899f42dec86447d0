"""The share of the best sum is the share of the points."""
import os
import sys

_, given, answer, feedback = sys.argv
with open(given) as file:
    most = int(file.readline())
    numbers = file.readline().split()
with open(answer) as file:
    best = int(file.read())
chosen = sys.stdin.read().split()
for word in chosen:
    if word not in numbers:
        sys.exit(43)
    numbers.remove(word)
value = sum(map(int, chosen))
if value > most:
    sys.exit(43)
with open(os.path.join(feedback, "score_multiplier.txt"), "w") as file:
    file.write(f"{value / best}\n")
sys.exit(42)
