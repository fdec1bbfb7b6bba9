"""Exports results: tables for papers, spreadsheets and programs, and data sets."""

from imharness.exports.data import csv_of, json_of, parquet_of, xlsx_of
from imharness.exports.markup import latex, markdown, typst
from imharness.exports.sheets import Sheet, chosen_tables, sheet_of

__all__ = [
    "Sheet",
    "chosen_tables",
    "csv_of",
    "json_of",
    "latex",
    "markdown",
    "parquet_of",
    "sheet_of",
    "typst",
    "xlsx_of",
]
