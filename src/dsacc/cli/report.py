"""`dsacc report`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands, import_option, say, trust_option


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "report",
        help="a page with the verdict, tables and figures of a study",
        description="Write one HTML file that opens from disk, and its figures (SVG, PNG) and tables (CSV, Markdown, "
        "LaTeX) into a folder next to it.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="an experiment, a demo, a folder of runs, or one run")
    videos = "first make a short video of each agent in each game in DIR/videos; existing videos are kept"
    parser.add_argument("--videos", action="store_true", help=videos)
    parser.add_argument("--alone", action="store_true", help="write only the page, without other files or links to any")
    parser.add_argument("--out", type=Path, help="HTML file to write (default: report.html in DIR)")
    import_option(parser)
    trust_option(parser)


def run(args: argparse.Namespace) -> None:
    from dsacc.system.text import size
    from dsacc.views.report import write_report

    if args.videos:
        from dsacc.views.report.films import shoot
        from dsacc.views.report.study import read_study

        shoot(read_study(args.folder), say)
    out = write_report(args.folder, args.out, alone=args.alone)
    files = "" if args.alone else f"; figures and tables are in {out.with_name(f'{out.stem}_files')}"
    say(f"wrote {out} ({size(out.stat().st_size)}){files}")
