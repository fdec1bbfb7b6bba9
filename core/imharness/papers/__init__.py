"""The tables of published studies as data, and how the numbers of a board compare with them. Imports no torch."""
