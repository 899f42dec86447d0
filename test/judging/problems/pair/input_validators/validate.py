import re
import sys

text = sys.stdin.read()
sys.exit(42 if re.fullmatch(r"""[0-9]+\n""", text) else 1)
