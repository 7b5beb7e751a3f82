from onebit.cli import main

main()
