1 | a b
2| a c
