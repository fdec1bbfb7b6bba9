"""When a run does what: times learnt from finished tasks, the order of tasks, and what a run says of itself."""
