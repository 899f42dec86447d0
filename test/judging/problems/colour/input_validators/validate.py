import re
import sys

text = sys.stdin.read()
sys.exit(42 if re.fullmatch(r"""(mix [a-z]+ [a-z]+|share [0-9]+ [0-9]+)\n""", text) else 1)
