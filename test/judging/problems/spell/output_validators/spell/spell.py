"""The input of a pass has the letters that were said, and the word as far as it is known."""
import argparse
import sys

parser = argparse.ArgumentParser()
parser.add_argument("input")
parser.add_argument("answer")
parser.add_argument("feedback")
parser.add_argument("--hint", required=True)
parser.add_argument("--note")
args = parser.parse_args()
if args.hint != "one letter in each pass" or args.note not in (None, "a space is a letter that is known"):
    sys.exit(1)
with open(args.input) as file:
    said, known = file.read().split("\n")[:2]
with open(args.answer) as file:
    word = file.read().rstrip("\n")
letter = sys.stdin.read().strip()
if len(letter) != 1 or letter in said:
    with open(args.feedback + "judgemessage.txt", "a") as file:
        file.write(args.hint + "\n")
    sys.exit(43)
known = "".join(letter if letter == right else shown for right, shown in zip(word, known))
if known != word:
    with open(args.feedback + "nextpass.in", "w") as file:
        file.write(f"{said}{letter}\n{known}\n")
sys.exit(42)
