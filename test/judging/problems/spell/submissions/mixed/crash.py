# @EXPECTED_RESULTS@: RUN-ERROR, WRONG-ANSWER
said = input()
if said:
    raise SystemExit(3)
print("a")
