"""Intervals of a column with limits end at these limits."""

from imharness.documents.tables import ColumnSpec, Row, Table, Value


def test_intervals_of_a_share_end_at_0_and_100() -> None:
    share = ColumnSpec(key="share", label="share %", description="", limits=(0.0, 100.0))
    other = ColumnSpec(key="other", label="other %", description="")
    wide = Value(value=98.0, low=-1.0, high=104.0)
    table = Table(
        id="t",
        title="",
        caption="",
        entry="x",
        columns=(share, other),
        rows=(Row(label="a", values={"share": wide, "other": wide}),),
    )
    values = table.rows[0].values
    assert (values["share"].low, values["share"].high) == (0.0, 100.0)
    assert values["other"] == wide
    assert Table.model_validate_json(table.model_dump_json()) == table
