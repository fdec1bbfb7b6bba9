"""When a run does what: how long tasks take, their order, what is left, and what a run says of itself."""
