1 | a b
| a c
