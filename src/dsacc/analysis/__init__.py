"""From rows of tests to results, statistics and tables. It needs NumPy only and loads neither torch nor OpenCV."""
