"""The makers of the tests' expected values. `python tools/goldens` lists them."""
