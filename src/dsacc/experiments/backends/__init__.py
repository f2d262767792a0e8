"""Where runs are executed. `base` says what a backend is, `registry` finds one by name."""
