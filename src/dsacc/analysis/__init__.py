"""From rows of tests to results, statistics and tables. NumPy only: importing it loads neither torch nor OpenCV."""
