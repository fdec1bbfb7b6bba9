"""Running code that nobody vouches for: its own process under bubblewrap, spoken to through a pipe."""
