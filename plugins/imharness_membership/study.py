"""The study that this track carries."""

from imharness.membership import Paper

STUDY = Paper(
    title="Systematic Evaluation of Privacy Risks of Machine Learning Models",
    authors="Song & Mittal",
    year=2021,
    url="https://arxiv.org/abs/2003.10595",
)
