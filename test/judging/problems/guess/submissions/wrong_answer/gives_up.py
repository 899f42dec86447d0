print("I give up")
