"""Answers lower, higher or correct to at most ten guesses."""
import sys


def end(code, message):
    with open(sys.argv[3] + "/judgemessage.txt", "w") as file:
        file.write(message + "\n")
    sys.exit(code)


with open(sys.argv[1]) as file:
    secret = int(file.read())
for turn in range(1, 11):
    line = sys.stdin.readline()
    if not line.strip().isdigit():
        end(43, f"guess {turn} is not a number")
    guess = int(line)
    if guess == secret:
        print("correct", flush=True)
        end(42, f"{turn} guesses")
    print("lower" if secret < guess else "higher", flush=True)
end(43, "more than ten guesses")
