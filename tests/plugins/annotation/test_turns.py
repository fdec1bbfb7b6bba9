"""What a book keeps in memory agrees with its file, also after another connection wrote to it."""

from pathlib import Path

from imharness_annotation.book import Book, Question


def filled(file: Path, count: int) -> Path:
    """Return a file that asks which of two images is better, once each; every tenth question is a decoy."""
    questions = [
        Question(f"q{i}", {"name": f"n{i}"}, ("left", "right"), "" if i % 10 else "left", i % 10 == 0, b"l", b"r")
        for i in range(count)
    ]
    Book(file).fill("better", 1, questions)
    return file


def test_two_connections_see_each_other_and_undo(tmp_path: Path) -> None:
    file = filled(tmp_path / "b.sqlite", 30)
    here, there = Book(file), Book(file)
    first = here.following("Ann")
    assert first is not None
    assert there.following("Ann") == first
    here.vote(first.id, "Ann", "left")
    here.vote(first.id, "Ann", "right")
    assert [vote.answer for vote in there.votes()] == ["left"]
    for book in (here, there, Book(file)):
        assert book.progress("Ann")[0] == 1
        assert book.following("Ann") != first
    there.undo("Ann")
    for book in (here, there, Book(file)):
        assert book.progress("Ann") == (0, 30)
        assert book.following("Ann") == first


def test_votes_of_who_fails_the_decoys_leave_a_question_open(tmp_path: Path) -> None:
    """Decoys are questions 1, 11 and 21, and left is right; one vote on a question closes it for others."""
    book = Book(filled(tmp_path / "b.sqlite", 30))
    book.vote(2, "Bob", "left")
    book.vote(1, "Bob", "right")
    assert book.left_out() == {"Bob"}
    assert book.progress("Ann") == (0, 30)
    book.undo("Bob")
    book.vote(1, "Bob", "left")
    assert book.left_out() == frozenset()
    assert book.progress("Ann") == (0, 29)
