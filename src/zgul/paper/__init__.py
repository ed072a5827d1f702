"""The paper's evaluation: its rows and numbers, the results of our runs, and the report that compares both."""
