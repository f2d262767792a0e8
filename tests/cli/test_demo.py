"""The demo, shortened: the same processes, files and table."""

import json

from PIL import Image

from dsacc.cli import demo_run as demo


def test_the_demo_trains_tests_and_says_where_the_results_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "STEPS", 160)
    monkeypatch.setattr(demo, "EPISODES", 10)
    monkeypatch.setattr(demo, "SETTINGS", ["--random-steps", "100", "--log-every", "40"])
    rows = demo.run_demo(tmp_path / "demo")
    assert [(r["agent"], r["shift"], r["policy"]) for r in rows] == [
        (agent, shift, policy)
        for agent in ("dsac", "dsac-m")
        for shift in ("id", "snow", "rain", "fog")
        for policy in ("greedy", "sampled")
    ]
    assert json.loads((tmp_path / "demo" / "results.json").read_text()) == rows
    assert all(len(r["returns"]) == 10 and set(r["returns"]) <= {-1.0, 1.0} for r in rows)
    said = capsys.readouterr().out
    assert "dsac-m" in said
    assert "curves.png" in said
    assert "report.html" in said
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "One seed: no interval is defined" in page
    assert "Catch-v0, from left to right: clean, snow, rain, fog" in page
    with Image.open(tmp_path / "demo" / "curves.png") as picture:
        assert picture.width > 1000
    for agent in ("dsac", "dsac-m"):
        assert json.loads((tmp_path / "demo" / agent / "status.json").read_text())["state"] == "finished"
