"""Many runs as one experiment: a grid of games, agents and seeds, trained and tested on one machine or on many."""
