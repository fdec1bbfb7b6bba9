"""Statistics of the leaderboard: numpy and scipy only. They know nothing of components, tasks or tables."""


class NotTestable(Exception):
    """A statistic is not defined on these data; the message says why."""
