"""The first pass leaves a file, so that the second one knows that it is the second."""
import os
import sys

_, _, answer, feedback = sys.argv
with open(answer) as file:
    word = file.read().strip()
said = sys.stdin.read().strip()
state = os.path.join(feedback, "first_pass")
if os.path.exists(state):
    sys.exit(42 if said == word else 43)
if any(letter in said for letter in word) or "\n" in said:
    with open(os.path.join(feedback, "judgemessage.txt"), "w") as file:
        file.write("the code has letters of the word\n")
    sys.exit(43)
open(state, "w").close()
with open(os.path.join(feedback, "nextpass.in"), "w") as file:
    file.write(f"decode {said}\n")
sys.exit(42)
