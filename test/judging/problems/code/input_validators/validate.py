import re
import sys

text = sys.stdin.read()
sys.exit(42 if re.fullmatch(r"""encode [a-z]+\n""", text) else 1)
