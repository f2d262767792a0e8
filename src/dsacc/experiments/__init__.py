"""Many runs as one: a grid of games, agents and seeds, trained and tested on one machine or on many."""
