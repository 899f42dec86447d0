print("abcdefgh")
