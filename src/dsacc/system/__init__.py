"""What any program needs: files, memory, threads, processes, text. Nothing about reinforcement learning."""
