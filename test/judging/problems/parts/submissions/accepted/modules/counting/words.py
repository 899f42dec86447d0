def different(text):
    return len(set(text.split()))
