"""Exports results: tables for papers, spreadsheets and programs, data sets, and records for other collections."""

from imharness.exports.data import csv_of, json_of, parquet_of, xlsx_of
from imharness.exports.evaluations import community_evals, every_eval_ever
from imharness.exports.markup import latex, markdown, typst
from imharness.exports.sheets import Sheet, chosen_tables, sheet_of

__all__ = [
    "Sheet",
    "chosen_tables",
    "community_evals",
    "csv_of",
    "every_eval_ever",
    "json_of",
    "latex",
    "markdown",
    "parquet_of",
    "sheet_of",
    "typst",
    "xlsx_of",
]
