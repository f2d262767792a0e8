"""The commands, a file each: `add` describes the options, `run` does it. Nothing slow is imported before `run`."""
