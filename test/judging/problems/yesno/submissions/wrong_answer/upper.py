print("NO" if int(input()) % 2 else "YES")
