from counting.words import different
import reader

print(different(reader.text()))
