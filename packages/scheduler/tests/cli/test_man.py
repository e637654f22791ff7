"""`berth man`: a page for each command, made of it, which groff reads without a warning."""

import shutil
import subprocess

import click
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.cli.man import page
from packages.scheduler.tests.cli.test_output import every_command


def man(*names, code=0):
    result = CliRunner().invoke(main, ["man", *names])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_reads_every_page_without_a_warning():
    pages = [man(), *(man(*name.split()) for name, _ in every_command())]
    read = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Tutf8"], input="\n".join(pages), capture_output=True, text=True, check=True
    )
    assert read.stderr == ""


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_options_can_be_copied_from_the_page():
    read = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-cbou"], input=man("explain"), capture_output=True, text=True, check=True
    )
    for told in ("-A, --all-namespaces", "berth explain deploy/web -n shop", "SEE ALSO", "EXIT STATUS"):
        assert told in read.stdout


def test_a_page_has_everything_that_the_command_has():
    text = man("trace", "import").replace("\\-", "-")
    assert '.TH "BERTH-TRACE-IMPORT" "1"' in text
    assert "\\fBberth trace import\\fR [OPTIONS] SOURCE" in text
    assert "--largest-node-memory QUANTITY" in text
    assert "\\fBberth-trace\\fR(1)" in text
    assert ".SH COMMANDS" in man()


def test_text_is_never_taken_for_a_request():
    @click.command("odd", help=".TH is no title here\n\n'nor this; C:\\\\new, na\u00efve")
    def odd():
        pass

    text = "\n".join(page(click.Context(odd, info_name="odd"), "1"))
    assert "\n\\&.TH is no title" in text
    assert "\n\\&\\(aqnor this; C:\\(rs\\(rsnew, na\\[u00EF]ve" in text


@pytest.mark.parametrize(
    ("names", "said"),
    [(("nope",), "berth has no command 'nope'; there are run, explain"), (("explain", "x"), "berth explain has no")],
)
def test_a_command_that_is_not_there_is_told(names, said):
    assert said in man(*names, code=2)
