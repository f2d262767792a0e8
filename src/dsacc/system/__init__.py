"""What any program needs, and nothing of reinforcement learning."""
