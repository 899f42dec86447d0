print(1, flush=True)
input()
raise SystemExit(1)
