"""Where cells are computed: in this process or in workers on this machine."""
