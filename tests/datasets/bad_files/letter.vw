1 | a:1 b
2 | a:x
