print("{{" + "word}}")
