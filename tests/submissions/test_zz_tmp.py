from tests.submissions.test_run import *
def test_x(submission, tmp_path, profile):
    names = "straight-through random-size wavelets rounds codebook lazy stochastic-depth".split()
    folder = submission("users/users", "".join(entry(f"users/{n}") for n in names))
    report = run(folder, tmp_path / "store", profile)
    print("FLAGS", report.flags(), "CELLS", len(report.cells), report.suite())
    for a in report.gradient_audits: print(a.component, a.flags, [(g.way, round(g.gain,3)) for g in a.gains])
