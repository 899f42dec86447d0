"""Accepts every pair with the right sum whose numbers are at least `--least`."""
import sys


def say(verdict, message):
    with open(sys.argv[3] + "/judgemessage.txt", "w") as file:
        file.write(message + "\n")
    sys.exit(verdict)


with open(sys.argv[1]) as file:
    wanted = int(file.read())
least = int(sys.argv[sys.argv.index("--least") + 1])
words = sys.stdin.read().split()
if len(words) != 2 or not all(word.isdigit() for word in words):
    say(43, "the output is not two numbers")
a, b = map(int, words)
if min(a, b) < least:
    say(43, f"{min(a, b)} is too small")
if a + b != wanted:
    say(43, f"the sum is {a + b}")
say(42, "right")
