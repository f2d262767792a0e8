"""A user's mistake on the command line, and how it must end."""

from dsacc.cli import main


def assert_refused(arguments, message, folder, monkeypatch, capsys):
    """One line that says what is wrong, exit code 2, and nothing written into `folder`."""
    monkeypatch.chdir(folder)
    before = set(folder.iterdir())
    try:
        code = main(arguments.split())
    except SystemExit as stop:
        code = stop.code
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert len(lines) == 1, lines
    assert lines[0].startswith("dsacc: ")
    assert message in lines[0], lines[0]
    assert set(folder.iterdir()) == before
